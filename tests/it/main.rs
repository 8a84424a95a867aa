//! In-process tests: router, laws, tidy.
#![allow(unreachable_pub, clippy::unwrap_used)] // one binary of tests: its modules share what they make

mod admission;
mod layers_lint;
mod manifests;
mod pod_laws;
mod podgroup;
mod podrequests;
mod quantity;
mod server_drain;
mod server_health;
mod server_http;
mod server_limits;
mod server_logs;
mod server_rig;
mod tidy;
mod tls_files;
mod tls_handshake;
mod tls_issue;
mod tls_secret;
mod webhook_config;
mod worker_words;
