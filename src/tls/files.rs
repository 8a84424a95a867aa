//! A folder with `tls.crt`, `tls.key` and maybe `ca.crt` -> the resolver, again whenever the bytes change.
//!
//! Polled, not watched: kubelet swaps a symlink above the files, and watches on the files die with the first swap.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use tokio_util::sync::CancellationToken;
use zeroize::Zeroizing;

use super::{InvalidPair, Resolver, Served};
use crate::telemetry::metrics::TlsMetrics;
use crate::words;

/// How often the folder is read.
pub const PERIOD: Duration = Duration::from_secs(2);
/// How soon after a failure: an exchange of two files may be half done.
const RETRY: Duration = Duration::from_millis(500);

/// A folder that gives no pair.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    #[error("read {path}")]
    Read {
        path: PathBuf,
        #[source]
        source: io::Error,
    },
    #[error("use what {dir} holds")]
    Pair {
        dir: PathBuf,
        #[source]
        source: InvalidPair,
    },
}

/// The bytes of one reading.
#[derive(PartialEq, Eq)]
struct Bytes {
    chain: Vec<u8>,
    key: Zeroizing<Vec<u8>>,
    ca: Option<Vec<u8>>,
}

/// Keeps the resolver supplied until the token is cancelled. On any error the pair in service stays.
pub async fn keep(
    dir: PathBuf,
    resolver: Arc<Resolver>,
    metrics: Arc<TlsMetrics>,
    period: Duration,
    end: CancellationToken,
) {
    let mut served: Option<Bytes> = None;
    let mut told = String::new();
    loop {
        let wait = match turn(&dir, served.as_ref(), &resolver, &metrics).await {
            Ok(Some(bytes)) => {
                served = Some(bytes);
                told.clear();
                period
            }
            Ok(None) => {
                told.clear();
                period
            }
            Err(error) => {
                metrics.certificate_errors.inc();
                let words = words::chain(&error);
                if words != told {
                    tracing::warn!(
                        error = words,
                        "the certificate files cannot be used; what is served stays"
                    );
                    told = words;
                }
                RETRY.min(period)
            }
        };
        tokio::select! { () = end.cancelled() => return, () = tokio::time::sleep(wait) => {} }
    }
}

/// Reads once; serves and gives back the bytes if they are new and good.
async fn turn(
    dir: &Path,
    served: Option<&Bytes>,
    resolver: &Resolver,
    metrics: &TlsMetrics,
) -> Result<Option<Bytes>, FilesError> {
    let bytes = read(dir).await?;
    if served == Some(&bytes) {
        return Ok(None);
    }
    let pair = Served::from_pem(&bytes.chain, &bytes.key, bytes.ca.as_deref(), Timestamp::now()).map_err(
        |source| FilesError::Pair {
            dir: dir.to_owned(),
            source,
        },
    )?;
    metrics.installed(&pair);
    tracing::info!(not_after = %pair.life().not_after, "serving the certificate from files");
    resolver.install(pair);
    Ok(Some(bytes))
}

async fn read(dir: &Path) -> Result<Bytes, FilesError> {
    let file = async |name: &str| {
        let path = dir.join(name);
        tokio::fs::read(&path)
            .await
            .map_err(|source| FilesError::Read { path, source })
    };
    let chain = file("tls.crt").await?;
    let key = Zeroizing::new(file("tls.key").await?);
    let ca = match file("ca.crt").await {
        Ok(ca) => Some(ca),
        Err(FilesError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    Ok(Bytes { chain, key, ca })
}
