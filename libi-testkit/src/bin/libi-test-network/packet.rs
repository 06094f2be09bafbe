//! What is to be known of an IP packet in order to deliver it: whom it is for, and whether it is
//! TCP.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The port that stays open where TCP is dropped.
const SSH: u16 = 22;
const TCP: u8 = 6;

/// See the [module](self).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Packet {
    pub(crate) to: IpAddr,
    /// It belongs to a connection of TCP that is not one of ssh.
    pub(crate) is_other_tcp: bool,
}

impl Packet {
    /// Nothing if it is none.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (to, protocol, payload): (IpAddr, u8, usize) = match bytes.first()? >> 4 {
            4 => {
                let to: [u8; 4] = bytes.get(16..20)?.try_into().ok()?;
                (Ipv4Addr::from(to).into(), bytes[9], usize::from(bytes[0] & 15) * 4)
            }
            6 => {
                let to: [u8; 16] = bytes.get(24..40)?.try_into().ok()?;
                // No host here sends it with headers in between.
                (Ipv6Addr::from(to).into(), bytes[6], 40)
            }
            _ => return None,
        };
        let port = |at: usize| Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?));
        let is_ssh = || port(payload) == Some(SSH) || port(payload + 2) == Some(SSH);
        Some(Self { to, is_other_tcp: protocol == TCP && !is_ssh() })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A packet of TCP over IPv4, as far as it matters.
    pub(crate) fn tcp(to: [u8; 4], port: u16) -> Vec<u8> {
        let mut bytes = vec![0; 40];
        bytes[0] = 0x45;
        bytes[9] = TCP;
        bytes[16..20].copy_from_slice(&to);
        bytes[20..22].copy_from_slice(&50_000u16.to_be_bytes());
        bytes[22..24].copy_from_slice(&port.to_be_bytes());
        bytes
    }

    #[test]
    fn a_packet_says_whom_it_is_for_and_whether_it_is_ssh() {
        let to = [10, 77, 1, 9];
        let read = |port| Packet::read(&tcp(to, port)).unwrap();
        assert_eq!(read(22), Packet { to: IpAddr::from(to), is_other_tcp: false });
        assert_eq!(read(23), Packet { to: IpAddr::from(to), is_other_tcp: true });
        let mut six = vec![0; 60];
        (six[0], six[6], six[39]) = (0x60, TCP, 1);
        assert_eq!(
            Packet::read(&six).unwrap(),
            Packet { to: Ipv6Addr::LOCALHOST.into(), is_other_tcp: true }
        );
    }

    #[test]
    fn what_is_cut_short_is_no_packet() {
        assert_eq!(Packet::read(&tcp([10, 77, 1, 9], 22)[..19]), None);
        assert_eq!(Packet::read(&[0x60; 39]), None);
        assert_eq!(Packet::read(&[]), None);
        assert!(Packet::read(&tcp([10, 77, 1, 9], 22)[..21]).is_some());
    }
}
