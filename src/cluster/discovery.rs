//! What a cluster serves: groups, versions, resources.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::apimachinery::pkg::apis::meta::v1::APIGroupList;
use kube::Client;
use kube::core::ApiResource;

use super::api::CallError;

/// The resources of some groups that a cluster serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Group and version -> plurals.
    resources: BTreeMap<(String, String), BTreeSet<String>>,
}

impl Served {
    /// Asks for these groups. A group that is not served is no error.
    ///
    /// # Errors
    /// If the cluster does not answer, or not what was asked.
    pub async fn ask(client: &Client, groups: &[&str]) -> Result<Self, CallError> {
        let mut resources = BTreeMap::new();
        let APIGroupList { groups: served } = client.list_api_groups().await?;
        for group in served
            .iter()
            .filter(|group| groups.contains(&group.name.as_str()))
        {
            for version in &group.versions {
                match client.list_api_group_resources(&version.group_version).await {
                    Ok(list) => {
                        let plurals = list.resources.into_iter().map(|resource| resource.name);
                        resources.insert((group.name.clone(), version.version.clone()), plurals.collect());
                    }
                    // It went away between the two questions.
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(Self { resources })
    }

    /// Whether it serves this resource in this version.
    #[must_use]
    pub fn has(&self, group: &str, version: &str, plural: &str) -> bool {
        let key = (group.to_owned(), version.to_owned());
        self.resources
            .get(&key)
            .is_some_and(|plurals| plurals.contains(plural))
    }

    /// The first of these versions in which it serves the resource.
    #[must_use]
    pub fn first<'v>(&self, group: &str, versions: &[&'v str], plural: &str) -> Option<&'v str> {
        versions
            .iter()
            .copied()
            .find(|version| self.has(group, version, plural))
    }
}

/// A resource of a group, as kube asks for it when it is known by name only.
#[must_use]
pub fn api_resource(group: &str, version: &str, plural: &str, kind: &str) -> ApiResource {
    ApiResource {
        group: group.to_owned(),
        version: version.to_owned(),
        api_version: format!("{group}/{version}"),
        kind: kind.to_owned(),
        plural: plural.to_owned(),
    }
}
