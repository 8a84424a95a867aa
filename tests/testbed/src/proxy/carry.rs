//! Bytes of one connection, both ways, as the mode of the moment says.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::sync::{Notify, watch};
use tokio::time::timeout;

use super::tls_records::TlsRecords;
use super::{Shared, Traffic};

/// After a request whose answer is to be lost: the server has answered when it was silent so long after
/// its first byte. (The first bytes may be a session ticket, which is not the answer.)
const SILENCE: Duration = Duration::from_millis(250);
/// A request whose server says nothing at all: a watch without events.
const NO_ANSWER: Duration = Duration::from_secs(3);

/// How a connection ends.
enum End {
    /// One side closed: the other is closed too.
    Closed,
    Reset,
}

pub(super) async fn carry(mut client: TcpStream, mut server: TcpStream, shared: &Shared) {
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let end = {
        let (from_client, to_client) = client.split();
        let (from_server, to_server) = server.split();
        let lose = Notify::new();
        tokio::select! {
            end = requests(from_client, to_server, shared, &lose) => end,
            end = answers(from_server, to_client, shared, &lose) => end,
            () = cut(shared.traffic.subscribe()) => End::Reset,
        }
    };
    if matches!(end, End::Reset) {
        let _ = (client.set_zero_linger(), server.set_zero_linger());
    }
}

/// Client to server. Tells `lose` when a request was passed on whose answer is to be lost.
async fn requests(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, shared: &Shared, lose: &Notify) -> End {
    let mut traffic = shared.traffic.subscribe();
    let mut records = TlsRecords::default();
    let mut buffer = vec![0; 64 * 1024];
    let mut claimed = false;
    loop {
        let Ok(count @ 1..) = from.read(&mut buffer).await else {
            return End::Closed;
        };
        hold_back(&mut traffic).await;
        let before = records.application();
        records.feed(&buffer[..count]);
        // The first record of application data is the end of the handshake (TLS 1.3), no request.
        let is_request = records.application() > before && records.application() > 1;
        if !claimed && is_request && *traffic.borrow() == Traffic::LoseAnswers && shared.claim_loss() {
            claimed = true;
            lose.notify_one();
        }
        if to.write_all(&buffer[..count]).await.is_err() {
            return End::Closed;
        }
    }
}

/// Server to client.
async fn answers(mut from: ReadHalf<'_>, mut to: WriteHalf<'_>, shared: &Shared, lose: &Notify) -> End {
    let mut traffic = shared.traffic.subscribe();
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = tokio::select! {
            biased;
            () = lose.notified() => return swallow(from, shared).await,
            read = from.read(&mut buffer) => read,
        };
        let Ok(count @ 1..) = read else { return End::Closed };
        hold_back(&mut traffic).await;
        if to.write_all(&buffer[..count]).await.is_err() {
            return End::Closed;
        }
    }
}

/// Reads the answer and throws it away.
async fn swallow(mut from: ReadHalf<'_>, shared: &Shared) -> End {
    let mut buffer = vec![0; 64 * 1024];
    let mut patience = NO_ANSWER;
    while let Ok(Ok(1..)) = timeout(patience, from.read(&mut buffer)).await {
        patience = SILENCE;
    }
    shared.lost.fetch_add(1, Ordering::SeqCst);
    if shared.to_lose.load(Ordering::SeqCst) == 0 {
        shared.traffic.send_if_modified(|traffic| {
            let over = *traffic == Traffic::LoseAnswers;
            if over {
                *traffic = Traffic::Pass;
            }
            over
        });
    }
    End::Reset
}

/// Returns when the mode lets bytes go on. A cut is seen by [`cut`].
async fn hold_back(traffic: &mut watch::Receiver<Traffic>) {
    let now = *traffic.borrow_and_update();
    match now {
        Traffic::Pass | Traffic::Cut | Traffic::LoseAnswers => {}
        Traffic::Slow(by) => tokio::time::sleep(by).await,
        Traffic::Pause => drop(traffic.wait_for(|traffic| *traffic != Traffic::Pause).await),
    }
}

async fn cut(mut traffic: watch::Receiver<Traffic>) {
    if traffic
        .wait_for(|traffic| *traffic == Traffic::Cut)
        .await
        .is_err()
    {
        std::future::pending::<()>().await;
    }
}
