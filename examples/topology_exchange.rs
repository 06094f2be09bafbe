//! Starts an overlay network: eight processes learn their places in a tree that the front end
//! chooses, exchange their addresses, connect to each other, and compute a sum over their own
//! connections.
//!
//! `cargo run --release --example topology_exchange`
//!
//! ```text
//!   front end           master (rank 0)            every member
//!     broadcast  ------------------------------->  learns its parent
//!                         gather  <--------------  opens a port
//!     prints    <-------  send
//!                         broadcast  ----------->  connects to its parent, passes its sum up
//!     prints    <-------  send
//! ```
//!
//! The program is both sides: started by a user it is the front end; started by the front end it is
//! a member.

use std::error::Error;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::time::Duration;

use libi::{Bytes, Distribution, FrontEnd, InitError, LaunchOptions, Member, Rank};

type Done<T = ()> = Result<T, Box<dyn Error>>;

/// The timeout of every call.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The tree: a line `child parent` for each rank but the root.
const TOPOLOGY: &str = "1 0\n2 0\n3 1\n4 1\n5 2\n6 2\n7 3\n";

fn main() -> Done {
    match Member::init() {
        Ok(member) => work(&member),
        Err(InitError::StartedByHand) => launch(),
        Err(error) => Err(error.into()),
    }
}

/// What the front end does.
fn launch() -> Done {
    let processes = Distribution::new(std::env::current_exe()?).hosts("host[1-4]:2");
    let front_end = FrontEnd::new()?;
    let session = front_end.launch(&processes, &LaunchOptions::local())?;

    session.broadcast(TOPOLOGY).wait(TIMEOUT)?;
    let ports = session.recv().wait(TIMEOUT)?;
    for (rank, port) in numbers(&ports)?.iter().enumerate() {
        match parent(TOPOLOGY, rank as u32)? {
            Some(parent) => println!("rank {rank} listens on port {port}, and connects to rank {parent}"),
            None => println!("rank {rank} listens on port {port}, and is the root"),
        }
    }
    let sum = session.recv().wait(TIMEOUT)?;
    println!("the squares of all ranks add up to {}", std::str::from_utf8(&sum)?);
    session.wait_done(TIMEOUT)?;
    Ok(())
}

/// What each member does.
fn work(member: &Member) -> Done {
    let topology = member.broadcast_from_front().wait(TIMEOUT)?;
    let topology = std::str::from_utf8(&topology)?;
    let rank = member.rank().0;

    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port().to_string();
    let ports = member.gather(Rank(0), port).wait(TIMEOUT)?; // Some at the master
    let table = ports.map(|ports| Bytes::from(ports.join(&b' ')));
    if let Some(table) = &table {
        member.send(table.clone()).wait(TIMEOUT)?;
    }
    let table = numbers(&member.broadcast(Rank(0), table).wait(TIMEOUT)?)?;

    // From here on the connections are the program's own.
    let parent = parent(topology, rank)?;
    let mut up = match parent {
        Some(parent) => {
            let port = table.get(parent as usize).ok_or("no port of the parent")?;
            Some(TcpStream::connect((Ipv4Addr::LOCALHOST, u16::try_from(*port)?))?)
        }
        None => None,
    };
    let mut sum = u64::from(rank) * u64::from(rank);
    for _ in 0..children(topology, rank)? {
        let mut word = [0; 8];
        listener.accept()?.0.read_exact(&mut word)?;
        sum += u64::from_be_bytes(word);
    }
    match &mut up {
        Some(parent) => parent.write_all(&sum.to_be_bytes())?,
        // The root is the master, which alone communicates with the front end.
        None => member.send(sum.to_string()).wait(TIMEOUT)?,
    }

    member.drain(TIMEOUT)?;
    Ok(())
}

/// The lines of a topology, as pairs of child and parent.
fn edges(topology: &str) -> impl Iterator<Item = Done<(u32, u32)>> + '_ {
    topology.lines().map(|line| {
        let (child, parent) = line.split_once(' ').ok_or("a line without a parent")?;
        Ok((child.parse()?, parent.parse()?))
    })
}

fn parent(topology: &str, rank: u32) -> Done<Option<u32>> {
    let edges: Vec<_> = edges(topology).collect::<Done<_>>()?;
    Ok(edges.iter().find(|edge| edge.0 == rank).map(|edge| edge.1))
}

fn children(topology: &str, rank: u32) -> Done<usize> {
    let edges: Vec<_> = edges(topology).collect::<Done<_>>()?;
    Ok(edges.iter().filter(|edge| edge.1 == rank).count())
}

/// Numbers with spaces between them.
fn numbers(text: &[u8]) -> Done<Vec<u64>> {
    std::str::from_utf8(text)?.split(' ').map(|word| Ok(word.parse()?)).collect()
}
