//! Bytes of a Secret -> a kubeconfig that is safe to use (R77): data only, https only, nothing run, no file read.

use kube::config::{Kubeconfig, NamedAuthInfo, NamedCluster, NamedContext};

/// Why a kubeconfig is not used. Each says what to do.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UnsafeKubeconfig {
    /// Too large.
    #[error("the kubeconfig has {found} bytes; at most {MAX_BYTES} are read")]
    TooLarge { found: usize },
    /// Not UTF-8 or not YAML.
    #[error("the kubeconfig cannot be read: {0}")]
    Unreadable(String),
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

/// A kubeconfig larger than this is a mistake.
pub const MAX_BYTES: usize = 256 * 1024;

/// Reads a worker's kubeconfig and refuses whatever would run a program, read a file, or send a secret in clear.
///
/// # Errors
/// [`UnsafeKubeconfig`], the first reason found.
pub fn parse(bytes: &[u8]) -> Result<Kubeconfig, UnsafeKubeconfig> {
    if bytes.len() > MAX_BYTES {
        return Err(UnsafeKubeconfig::TooLarge { found: bytes.len() });
    }
    let text =
        std::str::from_utf8(bytes).map_err(|_| UnsafeKubeconfig::Unreadable("not UTF-8".to_owned()))?;
    // The parser's message may quote the text, and the text holds secrets: only its kind is told.
    let config = Kubeconfig::from_yaml(text)
        .map_err(|_| UnsafeKubeconfig::Unreadable("not a kubeconfig in YAML or JSON".to_owned()))?;
    let current = config.current_context.clone().unwrap_or_default();
    let context = config
        .contexts
        .iter()
        .find(|named| named.name == current)
        .ok_or_else(|| UnsafeKubeconfig::NoContext {
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
) -> Result<(&'a NamedCluster, &'a NamedAuthInfo), UnsafeKubeconfig> {
    let context = named.context.clone().unwrap_or_default();
    let dangling = |what, found: &str| UnsafeKubeconfig::Dangling {
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

fn check_cluster(named: &NamedCluster) -> Result<(), UnsafeKubeconfig> {
    let name = &named.name;
    let cluster = named.cluster.clone().unwrap_or_default();
    let server = cluster.server.unwrap_or_default();
    if server.is_empty() {
        return Err(UnsafeKubeconfig::NoServer {
            cluster: name.clone(),
        });
    }
    if !server.starts_with("https://") {
        return Err(UnsafeKubeconfig::NotHttps {
            cluster: name.clone(),
            found: server
                .split_inclusive("://")
                .next()
                .filter(|scheme| scheme.ends_with("://"))
                .unwrap_or_default()
                .to_owned(), // never a user or a password
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
        Some((_, field, remedy)) => Err(UnsafeKubeconfig::ClusterField {
            cluster: name.clone(),
            field,
            remedy,
        }),
        None => Ok(()),
    }
}

fn check_user(named: &NamedAuthInfo) -> Result<(), UnsafeKubeconfig> {
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
        return Err(UnsafeKubeconfig::UserField {
            user: name.clone(),
            field,
            remedy,
        });
    }
    let certificate = user.client_certificate_data.is_some() && user.client_key_data.is_some();
    if user.token.is_none() && !certificate {
        return Err(UnsafeKubeconfig::NoCredential { user: name.clone() });
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
            UnsafeKubeconfig::NoContext { found: String::new() }
        );
        assert_eq!(
            parse(b"{secret-text").unwrap_err().to_string(),
            "the kubeconfig cannot be read: not a kubeconfig in YAML or JSON"
        );
        assert!(parse(&vec![b'a'; MAX_BYTES + 1]).is_err());
    }

    #[track_caller]
    fn check(cluster: &str, user: &str, expect: Expect) {
        let text = format!(
            "current-context: x\ncontexts:\n- name: x\n  context: {{cluster: c, user: u}}\nclusters:\n- name: c\n  cluster:\n    {cluster}\nusers:\n- name: u\n  user:\n    {user}\n"
        );
        expect
            .assert_eq(&parse(text.as_bytes()).map_or_else(|error| error.to_string(), |_| "used".to_owned()));
    }
}
