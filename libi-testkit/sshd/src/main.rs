//! A server of ssh that costs little, so that clients can be measured: one process serves all
//! connections, without a process, a sandbox or a login for each.
//!
//! It listens on one address (`0.0.0.0` serves all of 127.0.0.0/8), prints its port, and ends with
//! all commands when its standard input is closed. It accepts any user name with the key, and runs
//! commands as its own user, by `/bin/sh -c`. It offers one algorithm of each kind ([`session`]).
//! Not for networks that are not trusted.
//!
//! Unlike sshd it kills the process group of a command whose connection ends, so that nothing is
//! left of a measurement: hosts do not outlive the process that has launched them.

mod command;
mod session;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use russh::keys::{PrivateKey, PublicKey, load_public_key, load_secret_key};
use russh::server::{Config, run_stream};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use session::{Delays, Session};

/// Serves ssh until its standard input is closed. Prints the port on which it listens.
#[derive(Parser)]
struct Args {
    /// The private key of the host.
    host_key: PathBuf,
    /// The public key of users; without it, any key is accepted.
    user_key: Option<PathBuf>,
    /// Address to listen on.
    #[arg(long, default_value = "127.0.0.1")]
    address: IpAddr,
    /// Port to listen on; 0 is any that is free.
    #[arg(long, default_value_t = 0)]
    port: u16,
    /// The cipher.
    #[arg(long, value_enum, default_value_t = Cipher::Aes)]
    cipher: Cipher,
    /// Time before the server identifies itself, such as 20ms.
    #[arg(long, value_parser = duration, default_value = "0ms")]
    delay_connect: Duration,
    /// Time before the user's signature is accepted.
    #[arg(long, value_parser = duration, default_value = "0ms")]
    delay_login: Duration,
    /// Time before the command is started.
    #[arg(long, value_parser = duration, default_value = "0ms")]
    delay_command: Duration,
}

#[derive(Clone, Copy, ValueEnum)]
enum Cipher {
    /// aes128-gcm@openssh.com
    Aes,
    /// chacha20-poly1305@openssh.com
    Chacha,
}

fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a time such as 20ms or 2s");
    let unit = text.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
    let (number, unit) = text.split_at(unit);
    let number = number.parse().map_err(|_| wrong())?;
    match unit {
        "us" => Ok(Duration::from_micros(number)),
        "ms" => Ok(Duration::from_millis(number)),
        "s" => Ok(Duration::from_secs(number)),
        _ => Err(wrong()),
    }
}

fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("libi-test-sshd: {error}");
            ExitCode::FAILURE
        }
    }
}

/// What all connections share.
struct Shared {
    config: Arc<Config>,
    user_key: Option<PublicKey>,
    delays: Delays,
}

fn run(args: &Args) -> Result<(), Box<dyn std::error::Error>> {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE)?;
    setrlimit(Resource::RLIMIT_NOFILE, most, most)?;
    let host_key: PrivateKey = load_secret_key(&args.host_key, None)?;
    let user_key = args.user_key.as_ref().map(load_public_key).transpose()?;
    let cipher = match args.cipher {
        Cipher::Aes => russh::cipher::AES_128_GCM,
        Cipher::Chacha => russh::cipher::CHACHA20_POLY1305,
    };
    let delays = Delays { connect: args.delay_connect, login: args.delay_login, command: args.delay_command };
    let shared = Shared { config: Arc::new(session::config(host_key, cipher)), user_key, delays };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let listener = runtime.block_on(async { listen(SocketAddr::new(args.address, args.port)) })?;
    println!("{}", listener.local_addr()?.port());
    runtime.spawn(accept(listener, Arc::new(shared)));
    std::io::copy(&mut std::io::stdin(), &mut std::io::sink())?;
    // The connections go with the runtime, and their commands with them.
    drop(runtime);
    Ok(())
}

/// Many connections may arrive at once.
fn listen(address: SocketAddr) -> std::io::Result<TcpListener> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    socket.listen(4096)
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
            // There are no more descriptors until a connection ends.
            Err(_) => tokio::time::sleep(Duration::from_millis(1)).await,
        }
    }
}

async fn serve(stream: TcpStream, shared: Arc<Shared>) {
    let (Ok(client), Ok(server)) = (stream.peer_addr(), stream.local_addr()) else { return };
    pause(shared.delays.connect).await;
    let config = Arc::clone(&shared.config);
    let session = Session::new(shared, client, server);
    let _ = stream.set_nodelay(true);
    // A client that does something else is its own concern.
    if let Ok(running) = run_stream(config, stream, session).await {
        let _ = running.await;
    }
}

/// Lets this time pass.
async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}
