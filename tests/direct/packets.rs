//! The packets of the loopback device, as seen by a process that can capture them.

use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::JoinHandle;

/// A capture, until it is closed.
pub(crate) struct Tap {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Vec<u8>>>,
}

impl Tap {
    /// Starts to capture every packet.
    pub(crate) fn open() -> Self {
        // SAFETY: takes and returns numbers; no object owns the new descriptor.
        let socket = unsafe {
            let fd =
                libc::socket(libc::AF_PACKET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, i32::from(3u16.to_be()));
            assert!(fd >= 0, "{}", std::io::Error::last_os_error());
            OwnedFd::from_raw_fd(fd)
        };
        let mut address: libc::sockaddr_ll =
            // SAFETY: all zeros are a valid address.
            unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = 3u16.to_be(); // all protocols
        address.sll_ifindex = nix::net::if_::if_nametoindex("lo").unwrap() as i32;
        let room = 256 << 20;
        let wait = libc::timeval { tv_sec: 0, tv_usec: 50_000 };
        // SAFETY: the pointers are to values that live through the calls, with their sizes.
        unsafe {
            let length = size_of_val(&address) as u32;
            assert_eq!(libc::bind(socket.as_raw_fd(), (&raw const address).cast(), length), 0);
            let set = |option, value: *const libc::c_void, length| {
                assert_eq!(libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, value, length), 0);
            };
            set(libc::SO_RCVBUFFORCE, (&raw const room).cast(), 4);
            set(libc::SO_RCVTIMEO, (&raw const wait).cast(), size_of_val(&wait) as u32);
        }
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let (mut packets, mut buffer) = (Vec::new(), vec![0; 1 << 17]);
            loop {
                let flags = nix::sys::socket::MsgFlags::empty();
                match nix::sys::socket::recv(socket.as_raw_fd(), &mut buffer, flags) {
                    Ok(count) => packets.push(buffer[..count].to_vec()),
                    Err(_) if stopped.load(Relaxed) => return packets,
                    Err(_) => {}
                }
            }
        });
        Self { stop, thread }
    }

    /// The captured packets with their headers.
    pub(crate) fn close(self) -> Vec<Vec<u8>> {
        self.stop.store(true, Relaxed);
        self.thread.join().unwrap()
    }
}

/// The bytes of a packet after the headers of TCP over IPv4, and the port that it was sent to.
pub(crate) fn payload(packet: &[u8]) -> Option<(u16, &[u8])> {
    let ip = packet.get(14..).filter(|_| packet[12..14] == [8, 0])?;
    let head = usize::from(ip[0] & 15) * 4;
    let (length, tcp) =
        (usize::from(u16::from_be_bytes([ip[2], ip[3]])), ip.get(head..).filter(|_| ip[9] == 6)?);
    let offset = usize::from(tcp.get(12)? >> 4) * 4;
    let port = u16::from_be_bytes([tcp[2], tcp[3]]);
    Some((port, tcp.get(offset..length.checked_sub(head)?)?))
}

pub(crate) fn shows(packets: &[Vec<u8>], what: &[u8]) -> bool {
    packets.iter().any(|packet| packet.windows(what.len()).any(|window| window == what))
}
