//! Who may call a cluster: users and their tokens, as the API server's token file.

use std::fmt::Write as _;
use std::io::Read;

use anyhow::{Context, Result};

pub(super) const ADMIN: &str = "admin";
pub(super) const CONTROLLER_MANAGER: &str = "system:kube-controller-manager";
pub(super) const SCHEDULER: &str = "system:kube-scheduler";
pub(super) const KWOK: &str = "kwok";

/// Somebody with a token. A user without groups may do nothing until a role is bound to him.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: String,
    pub groups: Vec<String>,
}

impl User {
    #[must_use]
    pub fn new(name: &str, groups: &[&str]) -> Self {
        Self {
            name: name.to_owned(),
            groups: groups.iter().map(|&group| group.to_owned()).collect(),
        }
    }
}

/// Who is there in every cluster: the control plane, each with its own identity; `alice`, `bob` and `carol`
/// without any right; one kubelet per node.
pub(super) fn standard(nodes: &[String]) -> Vec<User> {
    let mut users = vec![
        User::new(ADMIN, &["system:masters"]),
        User::new(CONTROLLER_MANAGER, &[]),
        User::new(SCHEDULER, &[]),
        User::new(KWOK, &[]),
        User::new("alice", &[]),
        User::new("bob", &[]),
        User::new("carol", &[]),
    ];
    users.extend(
        nodes
            .iter()
            .map(|node| User::new(&format!("system:node:{node}"), &["system:nodes"])),
    );
    users
}

/// A user and the secret that proves him.
#[derive(Clone, Debug)]
pub(super) struct Token {
    pub(super) user: User,
    pub(super) secret: String,
}

impl Token {
    pub(super) fn issue(user: User) -> Result<Self> {
        let mut bytes = [0u8; 16];
        std::fs::File::open("/dev/urandom")
            .and_then(|mut file| file.read_exact(&mut bytes))
            .context("read /dev/urandom")?;
        let mut secret = String::new();
        for byte in bytes {
            let _ = write!(secret, "{byte:02x}");
        }
        Ok(Self { user, secret })
    }
}

/// The text of `--token-auth-file`: `token,user,uid,"group,group"`.
pub(super) fn token_file(tokens: &[Token]) -> String {
    tokens
        .iter()
        .map(
            |Token {
                 user: User { name, groups },
                 secret,
             }| match groups[..] {
                [] => format!("{secret},{name},{name}\n"),
                [..] => format!("{secret},{name},{name},\"{}\"\n", groups.join(",")),
            },
        )
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_line_per_user() {
        let token = |name: &str, groups: &[&str]| Token {
            user: User::new(name, groups),
            secret: "s".to_owned(),
        };
        let text = token_file(&[
            token("alice", &[]),
            token("system:node:n", &["system:nodes", "x"]),
        ]);
        assert_eq!(
            text,
            "s,alice,alice\ns,system:node:n,system:node:n,\"system:nodes,x\"\n"
        );
    }
}
