//! Certificates from a folder, swapped while serving.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use portcullis::tls::files;
use portcullis::tls::issue::{Issued, Lives, ServerNames};
use portcullis::tls::{Resolver, Served};
use tokio_util::sync::CancellationToken;

use crate::server_rig::{Rig, Setup, allowed, dial, eventually};

const PERIOD: Duration = Duration::from_millis(20);

fn issue() -> Issued {
    portcullis::tls::install_crypto();
    let names = ServerNames::of_url("https://127.0.0.1:1").unwrap();
    Issued::new(&names, &Lives::default(), Timestamp::now()).unwrap()
}

pub fn write(dir: &Path, issued: &Issued) {
    fs::write(dir.join("tls.crt"), &issued.leaf).unwrap();
    fs::write(dir.join("tls.key"), issued.leaf_key.expose()).unwrap();
    fs::write(dir.join("ca.crt"), &issued.ca).unwrap();
}

/// As kubelet writes: a new timestamped folder, then `..data` is renamed over the old link.
fn swap(dir: &Path, turn: usize, issued: &Issued) {
    let fresh = dir.join(format!("..{turn}"));
    fs::create_dir(&fresh).unwrap();
    write(&fresh, issued);
    std::os::unix::fs::symlink(&fresh, dir.join("..data_tmp")).unwrap();
    let old = fs::read_link(dir.join("..data")).ok();
    fs::rename(dir.join("..data_tmp"), dir.join("..data")).unwrap();
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        if !dir.join(name).exists() {
            std::os::unix::fs::symlink(Path::new("..data").join(name), dir.join(name)).unwrap();
        }
    }
    if let Some(old) = old {
        fs::remove_dir_all(old).unwrap();
    }
}

struct Kept {
    resolver: Arc<Resolver>,
    end: CancellationToken,
}

fn keep(dir: &Path, rig: &Rig) -> Kept {
    let (resolver, end) = (Arc::clone(&rig.resolver), CancellationToken::new());
    let metrics = Arc::clone(&rig.metrics.tls);
    tokio::spawn(files::keep(
        dir.to_owned(),
        Arc::clone(&resolver),
        metrics,
        PERIOD,
        end.clone(),
    ));
    Kept { resolver, end }
}

impl Kept {
    fn serves(&self, issued: &Issued) -> bool {
        let wanted = issued.served(Timestamp::now()).unwrap();
        self.resolver
            .current()
            .is_some_and(|current| current.leaf() == wanted.leaf())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        self.end.cancel();
    }
}

/// T11
#[tokio::test]
async fn survives_kubelets_symlink_swap_any_number_of_times() {
    let (dir, rig) = (tempfile::tempdir().unwrap(), Setup::new().start(|_| allowed()));
    let kept = keep(dir.path(), &rig);
    for turn in 0..20 {
        let issued = issue();
        swap(dir.path(), turn, &issued);
        eventually(|| kept.serves(&issued)).await;
        assert_eq!(
            kept.resolver.current().unwrap().ca_bundle(),
            Some(issued.ca.as_str())
        );
        let mut wire = dial(rig.address, &issued.ca).await.unwrap();
        assert_eq!(wire.post("{}").await.unwrap().status, 200);
    }
}

/// T11
#[tokio::test]
async fn keeps_the_old_pair_until_the_new_one_is_whole() {
    let (dir, rig) = (tempfile::tempdir().unwrap(), Setup::new().start(|_| allowed()));
    let path = |name: &str| dir.path().join(name);
    let old = issue();
    write(dir.path(), &old);
    let kept = keep(dir.path(), &rig);
    eventually(|| kept.serves(&old)).await;
    let errors = || rig.metric("portcullis_cert_errors_total");
    let stays = async |what: &str| {
        let before = errors();
        eventually(|| errors() > before + 1.0).await;
        assert!(kept.serves(&old), "{what}");
    };

    let new = issue();
    fs::write(path("tls.key"), new.leaf_key.expose()).unwrap();
    stays("the key came first").await;
    write(dir.path(), &old);
    fs::write(path("tls.crt"), &new.leaf).unwrap();
    stays("the certificate came first").await;
    fs::write(path("tls.key"), new.leaf_key.expose()).unwrap();
    stays("the CA is still the old one").await;
    fs::write(path("tls.crt"), &new.leaf[..new.leaf.len() / 2]).unwrap();
    stays("truncated").await;
    for name in ["tls.crt", "tls.key", "ca.crt"] {
        write(dir.path(), &new);
        fs::write(path(name), "").unwrap();
        if kept.serves(&new) {
            panic!("{name} is empty");
        }
        stays("empty").await;
        write(dir.path(), &old);
    }
    fs::remove_file(path("tls.key")).unwrap();
    stays("absent").await;
    // Root may read anything, so what cannot be read here is a folder.
    fs::create_dir(path("tls.key")).unwrap();
    stays("unreadable").await;
    fs::remove_dir(path("tls.key")).unwrap();
    write(dir.path(), &new);
    eventually(|| kept.serves(&new)).await;
}

/// T11
#[tokio::test]
async fn a_chain_is_served_whole_and_a_missing_ca_is_allowed() {
    let (dir, rig) = (tempfile::tempdir().unwrap(), Setup::new().start(|_| allowed()));
    let issued = issue();
    fs::write(
        dir.path().join("tls.crt"),
        format!("{}{}", issued.leaf, issued.ca),
    )
    .unwrap();
    fs::write(dir.path().join("tls.key"), issued.leaf_key.expose()).unwrap();
    let kept = keep(dir.path(), &rig);
    eventually(|| kept.serves(&issued)).await;
    assert_eq!(kept.resolver.current().unwrap().ca_bundle(), None);
    let wire = dial(rig.address, &issued.ca).await.unwrap();
    assert_eq!(wire.stream.get_ref().1.peer_certificates().unwrap().len(), 2);
}

/// C3
#[tokio::test]
async fn files_that_appear_later_are_served_when_they_do() {
    let (dir, rig) = (tempfile::tempdir().unwrap(), Setup::new().start(|_| allowed()));
    let later = dir.path().join("later");
    let kept = keep(&later, &rig);
    let issued = issue();
    eventually(|| rig.metric("portcullis_cert_errors_total") > 1.0).await;
    fs::create_dir(&later).unwrap();
    write(&later, &issued);
    eventually(|| kept.serves(&issued)).await;
}

/// T11: an expired pair is no better than the one in service.
#[test]
fn an_expired_certificate_is_not_taken_into_service() {
    let issued = issue();
    let later = Timestamp::now() + jiff::SignedDuration::from_hours(24 * 91);
    let pair = Served::from_pem(
        issued.leaf.as_bytes(),
        issued.leaf_key.expose().as_bytes(),
        None,
        later,
    );
    assert_eq!(pair.unwrap_err().name(), "expired");
}

/// T7, T11: a bundle whose blocks lack a newline between them is published with one.
#[test]
fn the_published_bundle_is_written_anew() {
    let (one, two) = (issue(), issue());
    let joined = format!("{}{}", one.ca.trim_end(), two.ca).replace('\n', "\r\n");
    let joined = joined.replace("----------", "-----\n-----");
    let comment = format!("subject: somebody\n{joined}");
    let chain = one.leaf.as_bytes();
    let key = one.leaf_key.expose().as_bytes();
    let pair = Served::from_pem(chain, key, Some(comment.as_bytes()), Timestamp::now()).unwrap();
    assert_eq!(
        pair.ca_bundle(),
        Some(format!("{}{}", one.ca, two.ca).replace("\r\n", "\n").as_str())
    );
}

/// T10: pairs are swapped by pointer; connections that stand notice nothing.
#[tokio::test]
async fn swapping_a_hundred_times_breaks_no_connection() {
    let rig = Setup::new().start(|_| allowed());
    let mut wires = Vec::new();
    for _ in 0..25 {
        wires.push(rig.dial().await);
    }
    for turn in 0..100 {
        let next = rig.issued.renew_leaf(
            &ServerNames::of_url("https://127.0.0.1:1").unwrap(),
            &Lives::default(),
            Timestamp::now(),
        );
        let next = next.unwrap().served(Timestamp::now()).unwrap();
        let leaf = next.leaf().to_vec();
        rig.resolver.install(next);
        for wire in &mut wires[turn % 5..][..5] {
            assert_eq!(wire.post("{}").await.expect("reset").status, 200);
        }
        if turn % 10 == 0 {
            let fresh = rig.dial().await;
            assert_eq!(
                fresh.stream.get_ref().1.peer_certificates().unwrap()[0].as_ref(),
                leaf
            );
        }
    }
    for wire in &mut wires {
        assert_eq!(wire.post("{}").await.expect("reset").status, 200);
    }
    let accepted = rig.metric("portcullis_connections_accepted_total{listener=\"webhook\"}");
    assert_eq!(accepted, 35.0);
}
