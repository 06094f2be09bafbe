//! A command of a client: a process group with pipes, whose bytes go through a channel.
//!
//! | event | effect |
//! |---|---|
//! | the client sends data | it is kept until the standard input takes it, see below |
//! | the client sends an end of file | the standard input is closed |
//! | the client sends a signal | the group gets it |
//! | the command prints | data is sent as far as the client's window allows; the rest waits in the pipe |
//! | the command ends | its status or signal is sent; the channel goes on until its output is closed |
//! | the channel or the connection ends | the group is killed, unless the command has ended |
//!
//! Input that the command has not read is kept without a limit. russh opens the window again before
//! a message is taken, and delivers messages and adjustments of windows in one task: if that waited
//! for the command, a command that waits for its output to be read would wait for ever.

use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use russh::server::{Handle, Msg};
use russh::{Channel, ChannelId, ChannelMsg, ChannelReadHalf, ChannelWriteHalf, Sig};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};
use tokio::process::{Child, ChildStdin, Command};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// The number of standard error among the kinds of extended data.
const STDERR: u32 = 1;
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// The leader of a process group, which is killed when this is dropped before the leader has ended.
struct Leader(Child);

impl Leader {
    fn signal(&self, signal: Signal) {
        // There is a number until the process has been waited for, so it is not another's.
        if let Some(number) = self.0.id().and_then(|id| i32::try_from(id).ok()) {
            let _ = killpg(Pid::from_raw(number), signal);
        }
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        self.signal(Signal::SIGKILL);
    }
}

/// Runs a command, with these variables beside those of every login.
pub(crate) async fn run(
    command: &OsStr,
    variables: [(&'static str, String); 2],
    channel: Channel<Msg>,
    connection: &Handle,
) {
    let id = channel.id();
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(command).env_clear().env("PATH", PATH).env("SHELL", "/bin/sh").envs(variables);
    for name in ["HOME", "USER", "LOGNAME"] {
        shell.envs(std::env::var_os(name).map(|value| (name, value)));
    }
    shell.current_dir(std::env::var_os("HOME").unwrap_or_else(|| "/".into()));
    shell.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    match shell.spawn() {
        Ok(child) => serve(child, channel, connection).await,
        Err(error) => {
            let _ = channel.extended_data_bytes(STDERR, format!("{error}\n").into_bytes()).await;
            let _ = connection.exit_status_request(id, 126).await;
            let _ = connection.close(id).await;
        }
    }
}

async fn serve(mut child: Child, channel: Channel<Msg>, connection: &Handle) {
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let group = child.id().and_then(|id| i32::try_from(id).ok());
    let mut leader = Leader(child);
    let (requests, sink) = channel.split();
    let is_over = AtomicBool::new(false);
    let ended = async {
        let status = leader.0.wait().await;
        is_over.store(true, Ordering::Relaxed);
        if let Ok(status) = status {
            report(status, sink.id(), connection).await;
        }
    };
    let (input, fed) = unbounded_channel();
    let outputs = async {
        tokio::join!(ended, print(stdout, &sink, None), print(stderr, &sink, Some(STDERR)));
        let _ = sink.eof().await;
        let _ = sink.close().await;
    };
    let fed = async {
        feed(stdin, fed).await;
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = fed => {}
        () = outputs => {}
        () = obey(requests, input, |signal| {
            if let Some(group) = group.filter(|_| !is_over.load(Ordering::Relaxed)) {
                let _ = killpg(Pid::from_raw(group), signal);
            }
        }) => {}
    }
}

/// Does what the client asks, until the channel is closed.
async fn obey(mut requests: ChannelReadHalf, input: UnboundedSender<Bytes>, kill: impl Fn(Signal)) {
    let mut input = Some(input);
    loop {
        match requests.wait().await {
            // The command may have closed its standard input.
            Some(ChannelMsg::Data { data }) => drop(input.as_ref().map(|input| input.send(data))),
            Some(ChannelMsg::Eof) => input = None,
            Some(ChannelMsg::Signal { signal }) => {
                if let Some(signal) = number(&signal) {
                    kill(signal);
                }
            }
            Some(ChannelMsg::Close) | None => return,
            Some(_) => {}
        }
    }
}

/// Writes what the client has sent, until that ends or the command has closed the stream.
async fn feed(stdin: Option<ChildStdin>, mut input: UnboundedReceiver<Bytes>) {
    let Some(mut stdin) = stdin else { return };
    while let Some(bytes) = input.recv().await {
        if stdin.write_all(&bytes).await.is_err() {
            return;
        }
    }
}

/// Sends what the command prints, until it has closed the stream or the connection has ended.
async fn print(stream: Option<impl AsyncRead + Unpin>, sink: &ChannelWriteHalf<Msg>, kind: Option<u32>) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; 32 << 10];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        let bytes = buffer[..length].to_vec();
        let sent = match kind {
            None => sink.data_bytes(bytes).await,
            Some(kind) => sink.extended_data_bytes(kind, bytes).await,
        };
        if sent.is_err() {
            return;
        }
    }
}

async fn report(status: ExitStatus, id: ChannelId, connection: &Handle) {
    let _ = match (status.code(), status.signal().map(Signal::try_from)) {
        (Some(code), _) => connection.exit_status_request(id, u32::try_from(code).unwrap_or(255)).await,
        (None, Some(Ok(signal))) => {
            let (dumped, nothing) = (status.core_dumped(), String::new());
            connection.exit_signal_request(id, name(signal), dumped, nothing.clone(), nothing).await
        }
        (None, _) => connection.exit_status_request(id, 255).await,
    };
}

fn name(signal: Signal) -> Sig {
    match signal {
        Signal::SIGABRT => Sig::ABRT,
        Signal::SIGALRM => Sig::ALRM,
        Signal::SIGFPE => Sig::FPE,
        Signal::SIGHUP => Sig::HUP,
        Signal::SIGILL => Sig::ILL,
        Signal::SIGINT => Sig::INT,
        Signal::SIGKILL => Sig::KILL,
        Signal::SIGPIPE => Sig::PIPE,
        Signal::SIGQUIT => Sig::QUIT,
        Signal::SIGSEGV => Sig::SEGV,
        Signal::SIGTERM => Sig::TERM,
        Signal::SIGUSR1 => Sig::USR1,
        // As sshd names those that the protocol does not.
        other => Sig::Custom(format!("SIG@{}", other.as_str().trim_start_matches("SIG"))),
    }
}

fn number(signal: &Sig) -> Option<Signal> {
    Some(match signal {
        Sig::ABRT => Signal::SIGABRT,
        Sig::ALRM => Signal::SIGALRM,
        Sig::FPE => Signal::SIGFPE,
        Sig::HUP => Signal::SIGHUP,
        Sig::ILL => Signal::SIGILL,
        Sig::INT => Signal::SIGINT,
        Sig::KILL => Signal::SIGKILL,
        Sig::PIPE => Signal::SIGPIPE,
        Sig::QUIT => Signal::SIGQUIT,
        Sig::SEGV => Signal::SIGSEGV,
        Sig::TERM => Signal::SIGTERM,
        Sig::USR1 => Signal::SIGUSR1,
        Sig::Custom(_) => return None,
    })
}
