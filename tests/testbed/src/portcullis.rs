//! The process under test: started, killed, frozen and started again by its own process id.

use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::ports::{Port, free_port};
use crate::program::{Launch, Life, Order, Program};
use crate::wait::wait_for;

/// How to run `portcullis serve`.
#[derive(Clone, Debug)]
pub struct PortcullisOptions {
    /// The binary; [`PortcullisOptions::new`] takes it from `$PORTCULLIS_BINARY` if it is set.
    pub binary: PathBuf,
    /// Of its ServiceAccount on the manager.
    pub kubeconfig: PathBuf,
    /// Log and process id file: `<name>.log`, `<name>.pid`. Two processes of one test need two names.
    pub name: String,
    pub folder: PathBuf,
    /// After the standard ones.
    pub args: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Goes on after this process; [`crate::detached::end_all`] of its folder ends it.
    pub detached: bool,
    /// If not its own: a second process beside the one that the configurations name.
    pub webhook_url: Option<String>,
}

impl PortcullisOptions {
    #[must_use]
    pub fn new(binary: &Path, kubeconfig: &Path, folder: &Path) -> Self {
        Self {
            binary: std::env::var_os("PORTCULLIS_BINARY").map_or_else(|| binary.to_owned(), PathBuf::from),
            kubeconfig: kubeconfig.to_owned(),
            name: "portcullis".to_owned(),
            folder: folder.to_owned(),
            args: Vec::new(),
            env: Vec::new(),
            webhook_url: None,
            detached: false,
        }
    }
}

/// One `portcullis serve`, running or not. Its ports are the same after each start. Ends when dropped.
#[derive(Debug)]
pub struct Portcullis {
    options: PortcullisOptions,
    webhook: Port,
    metrics: Port,
    program: Option<Program>,
}

impl Portcullis {
    /// Reserves ports; starts nothing.
    ///
    /// # Errors
    /// No free ports.
    pub fn new(options: PortcullisOptions) -> Result<Self> {
        Ok(Self {
            options,
            webhook: free_port()?,
            metrics: free_port()?,
            program: None,
        })
    }

    /// Starts it and waits for `/readyz`.
    ///
    /// # Errors
    /// It ended, or was not ready in a minute; the message holds the end of its log.
    pub async fn start(&mut self) -> Result<()> {
        self.spawn()?;
        self.await_ready(Duration::from_secs(60)).await
    }

    /// Starts it and does not wait. One that still runs is killed first.
    ///
    /// # Errors
    /// The binary cannot be run.
    pub fn spawn(&mut self) -> Result<()> {
        self.kill9();
        let [program, args @ ..] = &self.command()[..] else {
            bail!("an empty command")
        };
        let launch = Launch {
            name: self.options.name.clone(),
            folder: self.options.folder.clone(),
            program: PathBuf::from(program),
            args: args.to_vec(),
            env: self.options.env.clone(),
            life: if self.options.detached {
                Life::Detached
            } else {
                Life::Ours
            },
        };
        self.program = Some(Program::start(&launch)?);
        Ok(())
    }

    /// Program and arguments, as they are run.
    #[must_use]
    pub fn command(&self) -> Vec<String> {
        let PortcullisOptions {
            binary,
            kubeconfig,
            args,
            ..
        } = &self.options;
        let webhook = self.webhook.address();
        let url = self
            .options
            .webhook_url
            .clone()
            .unwrap_or_else(|| format!("https://{webhook}"));
        let mut command = vec![
            binary.display().to_string(),
            "serve".to_owned(),
            format!("--kubeconfig={}", kubeconfig.display()),
            format!("--webhook-url={url}"),
            format!("--webhook-bind={webhook}"),
            format!("--metrics-bind={}", self.metrics.address()),
        ];
        command.extend(args.iter().cloned());
        command
    }

    /// Waits until `/readyz` answers 200.
    ///
    /// # Errors
    /// It ended, or was not ready in time; the message holds the end of its log.
    pub async fn await_ready(&mut self, timeout: Duration) -> Result<()> {
        let waited = wait_for("portcullis /readyz", timeout, async || {
            if !self.is_running() {
                bail!("it does not run");
            }
            let (code, body) = self.get("/readyz").await?;
            if code == 200 {
                Ok(Some(()))
            } else {
                bail!("{code}: {body}")
            }
        });
        waited.await.with_context(|| self.log_tail(20))
    }

    /// Status code and body of a GET on the metrics port.
    ///
    /// # Errors
    /// Nobody listens, or the answer is no HTTP.
    pub async fn get(&self, path: &str) -> Result<(u16, String)> {
        let mut stream = TcpStream::connect(self.metrics.address()).await?;
        let request = format!(
            "GET {path} HTTP/1.1\r\nHost: {}\r\nConnection: close\r\n\r\n",
            self.metrics.address()
        );
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        let code = answer
            .split(' ')
            .nth(1)
            .and_then(|code| code.parse().ok())
            .context("no HTTP answer")?;
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        Ok((code, body.to_owned()))
    }

    /// Where the API server reaches the webhook.
    #[must_use]
    pub fn webhook(&self) -> std::net::SocketAddr {
        self.webhook.address()
    }

    /// `/metrics`, `/healthz`, `/readyz`.
    #[must_use]
    pub fn metrics(&self) -> std::net::SocketAddr {
        self.metrics.address()
    }

    /// SIGKILL; it is gone when this returns.
    pub fn kill9(&mut self) {
        if let Some(mut program) = self.program.take() {
            program.order(Order::Kill);
            program.await_exit(Duration::from_secs(10));
        }
    }

    /// SIGSTOP; it stands when this returns.
    pub fn sigstop(&mut self) {
        if let Some(program) = &mut self.program {
            program.order(Order::Stop);
            let began = Instant::now();
            while program.is_running() && !program.id.is_stopped() && began.elapsed() < Duration::from_secs(5)
            {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    }

    /// SIGCONT.
    pub fn sigcont(&mut self) {
        if let Some(program) = &mut self.program {
            program.order(Order::Cont);
        }
    }

    /// SIGTERM, then waits; answers how it ended (`None` for a detached one: only a parent learns that).
    ///
    /// # Errors
    /// It did not run, or did not end in `timeout`: then it is killed.
    pub async fn sigterm(&mut self, timeout: Duration) -> Result<Option<ExitStatus>> {
        let mut program = self.program.take().context("portcullis does not run")?;
        program.order(Order::Term);
        let ended = wait_for("portcullis to end", timeout, async || {
            Ok::<_, anyhow::Error>(if program.is_running() { None } else { Some(()) })
        });
        if let Err(error) = ended.await {
            program.order(Order::Kill);
            return Err(error.context(program.log_tail(20)));
        }
        program.await_exit(Duration::from_secs(5));
        Ok(program.exit_status(Duration::from_secs(5)))
    }

    #[must_use]
    pub fn is_running(&self) -> bool {
        self.program.as_ref().is_some_and(Program::is_running)
    }

    /// Of the process itself, not of its keeper.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.program.as_ref().map(|program| program.id.pid)
    }

    /// Log of all its starts.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.options.folder.join(format!("{}.log", self.options.name))
    }

    /// The log's last lines.
    #[must_use]
    pub fn log_tail(&self, lines: usize) -> String {
        format!(
            "--- portcullis ({})\n{}",
            self.log().display(),
            crate::program::tail(&self.log(), lines)
        )
    }
}

impl Drop for Portcullis {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}", self.log_tail(40));
        }
    }
}
