//! Bytes of a Secret -> a kubeconfig that is safe to use (R77): data only, https only, nothing run, no file read.

use kube::config::{Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};

/// Why a kubeconfig is not used. Each says what to do.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum BadKubeconfig {
    /// Too large.
    #[error("the kubeconfig has {found} bytes; at most {MAX_BYTES} are read")]
    TooLarge { found: usize },
    /// Not UTF-8 or not YAML.
    #[error("the kubeconfig cannot be read: {0}")]
    Unreadable(&'static str),
    /// No context can be chosen.
    #[error("current-context {found:?} names no context of the kubeconfig; set it to one of its contexts")]
    NoContext { found: String },
    /// The context names something absent.
    #[error("context {context:?} names {what} {found:?}, which the kubeconfig lacks")]
    Dangling {
        context: String,
        what: &'static str,
        found: String,
    },
    /// No server.
    #[error("clusters[{cluster}].cluster.server is empty")]
    NoServer { cluster: String },
    /// No scheme.
    #[error("clusters[{cluster}].cluster.server is no URL; write https://HOST:PORT")]
    NoScheme { cluster: String },
    /// Plain HTTP.
    #[error(
        "clusters[{cluster}].cluster.server starts with {found:?}; only https:// is used, since a token would be sent in clear"
    )]
    NotHttps { cluster: String, found: String },
    /// A setting that weakens or redirects the connection.
    #[error("clusters[{cluster}].cluster.{field} is set; {remedy}")]
    ClusterField {
        cluster: String,
        field: &'static str,
        remedy: &'static str,
    },
    /// A setting that runs a program or reads a file of ours.
    #[error("users[{user}].user.{field} is set; {remedy}")]
    UserField {
        user: String,
        field: &'static str,
        remedy: &'static str,
    },
    /// No credential at all.
    #[error("users[{user}].user has neither a token nor client-certificate-data with client-key-data")]
    NoCredential { user: String },
}

impl BadKubeconfig {
    /// In CamelCase, for conditions. Unsafe is only what we would not do although it could be done; the rest leads
    /// nowhere.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::NotHttps { .. } | Self::ClusterField { .. } | Self::UserField { .. } => "UnsafeKubeconfig",
            Self::TooLarge { .. }
            | Self::Unreadable(_)
            | Self::NoContext { .. }
            | Self::Dangling { .. }
            | Self::NoServer { .. }
            | Self::NoScheme { .. }
            | Self::NoCredential { .. } => UNUSABLE,
        }
    }
}

/// The reason for a kubeconfig that leads nowhere.
pub const UNUSABLE: &str = "UnusableKubeconfig";
const NOT_TEXT: &str =
    "not UTF-8; put the kubeconfig into the Secret as `kubectl config view --raw` prints it";
const NO_KUBECONFIG: &str =
    "not a kubeconfig in YAML or JSON; put it into the Secret as `kubectl config view --raw` prints it";
/// A kubeconfig larger than this is a mistake.
pub const MAX_BYTES: usize = 256 * 1024;

/// Reads a worker's kubeconfig and refuses whatever would run a program, read a file, or send a secret in clear.
///
/// # Errors
/// [`BadKubeconfig`], the first reason found.
pub fn parse(bytes: &[u8]) -> Result<Kubeconfig, BadKubeconfig> {
    if bytes.len() > MAX_BYTES {
        return Err(BadKubeconfig::TooLarge { found: bytes.len() });
    }
    let text = std::str::from_utf8(bytes).map_err(|_| BadKubeconfig::Unreadable(NOT_TEXT))?;
    // The parser's message may quote the text, and the text holds secrets: only its kind is told.
    let config = Kubeconfig::from_yaml(text).map_err(|_| BadKubeconfig::Unreadable(NO_KUBECONFIG))?;
    let current = config.current_context.clone().unwrap_or_default();
    let context = config
        .contexts
        .iter()
        .find(|named| named.name == current)
        .ok_or_else(|| BadKubeconfig::NoContext {
            found: current.clone(),
        })?;
    let (cluster, user) = parts(&config, context)?;
    check_cluster(cluster)?;
    check_user(user)?;
    Ok(config)
}

fn parts<'a>(
    config: &'a Kubeconfig,
    named: &NamedContext,
) -> Result<(&'a NamedCluster, &'a NamedAuthInfo), BadKubeconfig> {
    let context = named.context.clone().unwrap_or_default();
    let dangling = |what, found: &str| BadKubeconfig::Dangling {
        context: named.name.clone(),
        what,
        found: found.to_owned(),
    };
    let cluster = config
        .clusters
        .iter()
        .find(|cluster| cluster.name == context.cluster)
        .ok_or_else(|| dangling("cluster", &context.cluster))?;
    let user = context.user.unwrap_or_default();
    let user = config
        .auth_infos
        .iter()
        .find(|info| info.name == user)
        .ok_or_else(|| dangling("user", &user))?;
    Ok((cluster, user))
}

fn check_cluster(named: &NamedCluster) -> Result<(), BadKubeconfig> {
    let name = &named.name;
    let cluster = named.cluster.clone().unwrap_or_default();
    let server = cluster.server.unwrap_or_default();
    if server.is_empty() {
        return Err(BadKubeconfig::NoServer {
            cluster: name.clone(),
        });
    }
    if !server.starts_with("https://") {
        let cluster = name.clone();
        return Err(match server.split_once("://") {
            // Never a user or a password: the scheme alone.
            Some((scheme, _)) => BadKubeconfig::NotHttps {
                cluster,
                found: format!("{scheme}://"),
            },
            None => BadKubeconfig::NoScheme { cluster },
        });
    }
    let set = [
        (
            cluster.insecure_skip_tls_verify == Some(true),
            "insecure-skip-tls-verify",
            "put the CA into certificate-authority-data instead",
        ),
        (
            cluster.certificate_authority.is_some(),
            "certificate-authority",
            "files are not read; use certificate-authority-data",
        ),
        (
            cluster.proxy_url.is_some(),
            "proxy-url",
            "remove it; proxies are not used",
        ),
    ];
    match set.into_iter().find(|(is_set, _, _)| *is_set) {
        Some((_, field, remedy)) => Err(BadKubeconfig::ClusterField {
            cluster: name.clone(),
            field,
            remedy,
        }),
        None => Ok(()),
    }
}

fn check_user(named: &NamedAuthInfo) -> Result<(), BadKubeconfig> {
    let name = &named.name;
    let user = named.auth_info.clone().unwrap_or_default();
    let set = [
        (
            user.exec.is_some(),
            "exec",
            "programs are not run; use a ServiceAccount token",
        ),
        (
            user.auth_provider.is_some(),
            "auth-provider",
            "programs are not run; use a ServiceAccount token",
        ),
        (
            user.token_file.is_some(),
            "tokenFile",
            "files are not read; put the token inline",
        ),
        (
            user.client_certificate.is_some(),
            "client-certificate",
            "files are not read; use client-certificate-data",
        ),
        (
            user.client_key.is_some(),
            "client-key",
            "files are not read; use client-key-data",
        ),
        (
            user.username.is_some() || user.password.is_some(),
            "username",
            "basic auth is not used; use a token",
        ),
    ];
    if let Some((_, field, remedy)) = set.into_iter().find(|(is_set, _, _)| *is_set) {
        return Err(BadKubeconfig::UserField {
            user: name.clone(),
            field,
            remedy,
        });
    }
    let certificate = user.client_certificate_data.is_some() && user.client_key_data.is_some();
    if user.token.is_none() && !certificate {
        return Err(BadKubeconfig::NoCredential { user: name.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::{Expect, expect};

    #[test]
    fn inline_data_over_https_is_used() {
        check("server: https://w", "token: t", expect!["used"]);
        check(
            "server: https://w",
            "client-certificate-data: YQ==\n    client-key-data: YQ==",
            expect!["used"],
        );
    }

    #[test]
    fn what_runs_a_program_is_refused() {
        check(
            "server: https://w",
            "exec: {command: aws, apiVersion: client.authentication.k8s.io/v1}",
            expect!["users[u].user.exec is set; programs are not run; use a ServiceAccount token"],
        );
        check(
            "server: https://w",
            "auth-provider: {name: gcp, config: {}}",
            expect!["users[u].user.auth-provider is set; programs are not run; use a ServiceAccount token"],
        );
    }

    #[test]
    fn what_reads_a_file_is_refused() {
        check(
            "server: https://w",
            "tokenFile: /x",
            expect!["users[u].user.tokenFile is set; files are not read; put the token inline"],
        );
        check(
            "server: https://w",
            "client-certificate: /x",
            expect![
                "users[u].user.client-certificate is set; files are not read; use client-certificate-data"
            ],
        );
        check(
            "server: https://w",
            "client-key: /x",
            expect!["users[u].user.client-key is set; files are not read; use client-key-data"],
        );
        check(
            "server: https://w\n    certificate-authority: /x",
            "token: t",
            expect![
                "clusters[c].cluster.certificate-authority is set; files are not read; use certificate-authority-data"
            ],
        );
    }

    #[test]
    fn what_weakens_the_connection_is_refused() {
        check(
            "server: http://w",
            "token: t",
            expect![[
                r#"clusters[c].cluster.server starts with "http://"; only https:// is used, since a token would be sent in clear"#
            ]],
        );
        check(
            "server: https://w\n    insecure-skip-tls-verify: true",
            "token: t",
            expect![
                "clusters[c].cluster.insecure-skip-tls-verify is set; put the CA into certificate-authority-data instead"
            ],
        );
        check(
            "server: https://w\n    proxy-url: http://p",
            "token: t",
            expect!["clusters[c].cluster.proxy-url is set; remove it; proxies are not used"],
        );
        check(
            "server: https://w",
            "username: a",
            expect!["users[u].user.username is set; basic auth is not used; use a token"],
        );
    }

    #[test]
    fn what_is_missing_is_named() {
        check(
            "server: https://w",
            "{}",
            expect!["users[u].user has neither a token nor client-certificate-data with client-key-data"],
        );
        check(
            "server: \"\"",
            "token: t",
            expect!["clusters[c].cluster.server is empty"],
        );
        assert_eq!(
            parse(b"contexts: []").unwrap_err(),
            BadKubeconfig::NoContext { found: String::new() }
        );
        assert_eq!(
            parse(b"{secret-text").unwrap_err(),
            BadKubeconfig::Unreadable(NO_KUBECONFIG)
        );
        assert!(parse(&vec![b'a'; MAX_BYTES + 1]).is_err());
    }

    #[test]
    fn only_what_is_refused_although_it_could_work_is_unsafe() {
        let reason = |text: &str| parse(text.as_bytes()).unwrap_err().reason();
        let one = |cluster, user| parse(config(cluster, user).as_bytes()).unwrap_err().reason();
        for garbage in ["garbage", "{secret-text", "", "[]", "{}", "contexts: 5"] {
            assert_eq!(reason(garbage), "UnusableKubeconfig", "{garbage}");
        }
        assert_eq!(parse(b"\xff\xfe").unwrap_err().reason(), "UnusableKubeconfig");
        assert_eq!(reason(&"a".repeat(MAX_BYTES + 1)), "UnusableKubeconfig");
        assert_eq!(
            reason(&config("server: https://w", "token: t").replace("user: u}", "user: x}")),
            "UnusableKubeconfig"
        );
        assert_eq!(one("server: https://w", "{}"), "UnusableKubeconfig");
        assert_eq!(one("server: \"\"", "token: t"), "UnusableKubeconfig");
        assert_eq!(one("server: w:6443", "token: t"), "UnusableKubeconfig");
        assert_eq!(one("server: http://w", "token: t"), "UnsafeKubeconfig");
        assert_eq!(
            one("server: https://w\n    proxy-url: http://p", "token: t"),
            "UnsafeKubeconfig"
        );
        assert_eq!(one("server: https://w", "tokenFile: /x"), "UnsafeKubeconfig");
    }

    fn config(cluster: &str, user: &str) -> String {
        format!(
            "current-context: x\ncontexts:\n- name: x\n  context: {{cluster: c, user: u}}\nclusters:\n- name: c\n  cluster:\n    {cluster}\nusers:\n- name: u\n  user:\n    {user}\n"
        )
    }

    #[track_caller]
    fn check(cluster: &str, user: &str, expect: Expect) {
        let text = config(cluster, user);
        expect
            .assert_eq(&parse(text.as_bytes()).map_or_else(|error| error.to_string(), |_| "used".to_owned()));
    }
}
