use super::*;
use proptest::prelude::*;

fn list(names: &str) -> Vec<String> {
    names.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

fn ours() -> Algorithms {
    Algorithms {
        kex: list("sntrup761x25519-sha512@openssh.com,curve25519-sha256,ecdh-sha2-nistp256"),
        host_keys: list("ssh-ed25519-cert-v01@openssh.com,ssh-ed25519,rsa-sha2-512"),
        prefers_known_keys: true,
        ciphers: list("chacha20-poly1305@openssh.com,aes128-ctr"),
        macs: list("umac-64-etm@openssh.com,hmac-sha2-256-etm@openssh.com,hmac-sha2-512"),
    }
}

fn payload(lists: [&str; 10]) -> Vec<u8> {
    let mut payload = vec![20];
    payload.extend([7; 16]);
    for list in lists {
        payload.extend(u32::try_from(list.len()).unwrap().to_be_bytes());
        payload.extend(list.as_bytes());
    }
    payload.extend([0; 5]);
    payload
}

fn server(kex: &str, keys: &str, cipher: &str, mac: &str) -> Offer {
    Offer::parse(&payload([kex, keys, cipher, cipher, mac, mac, "none", "none", "", ""])).unwrap()
}

#[test]
fn the_first_of_ours_is_taken_in_each_kind() {
    let server = server(
        "ecdh-sha2-nistp256,curve25519-sha256,kex-strict-s-v00@openssh.com",
        "rsa-sha2-512,ssh-ed25519",
        "aes128-ctr,chacha20-poly1305@openssh.com",
        "hmac-md5",
    );
    let agreed = agree(&ours(), &server, false).unwrap();
    assert_eq!(agreed.kex, "curve25519-sha256");
    assert_eq!(agreed.host_key, "ssh-ed25519");
    assert_eq!(agreed.cipher_to_server, "chacha20-poly1305@openssh.com");
    assert_eq!(agreed.mac_to_client, None);
}

#[test]
fn a_post_quantum_key_exchange_is_not_given_up_for_one_that_is_supported() {
    let server = server(
        "curve25519-sha256,sntrup761x25519-sha512@openssh.com",
        "ssh-ed25519",
        "aes128-ctr",
        "hmac-sha2-512",
    );
    let refused = agree(&ours(), &server, false).unwrap_err();
    let ssh_would = "sntrup761x25519-sha512@openssh.com".to_owned();
    assert_eq!(refused, Disagreement::Weaker { kind: Kind::Kex, ssh_would });
    assert_eq!(agree(&ours(), &server, true).unwrap().kex, "curve25519-sha256");
}

#[test]
fn a_mac_that_is_not_supported_declines_only_where_it_is_used() {
    let macs = "umac-64-etm@openssh.com,hmac-sha2-256-etm@openssh.com";
    let ctr = server("curve25519-sha256", "ssh-ed25519", "aes128-ctr", macs);
    let refused = agree(&ours(), &ctr, false).unwrap_err();
    assert_eq!(refused.to_string(), "ssh would use the MAC `umac-64-etm@openssh.com`");
    assert_eq!(
        agree(&ours(), &ctr, true).unwrap().mac_to_server.as_deref(),
        Some("hmac-sha2-256-etm@openssh.com")
    );
    let chacha = server("curve25519-sha256", "ssh-ed25519", "chacha20-poly1305@openssh.com", macs);
    assert!(agree(&ours(), &chacha, false).is_ok());
}

#[test]
fn nothing_in_common_is_told_in_the_words_of_ssh() {
    let words = |server: &Offer| agree(&ours(), server, false).unwrap_err().words();
    assert_eq!(
        words(&server("diffie-hellman-group1-sha1,ext-info-s", "ssh-ed25519", "aes128-ctr", "x")).unwrap(),
        "no matching key exchange method found. \
         Their offer: diffie-hellman-group1-sha1,ext-info-s"
    );
    assert_eq!(
        words(&server("curve25519-sha256", "ssh-dss", "aes128-ctr", "x")).unwrap(),
        "no matching host key type found. Their offer: ssh-dss"
    );
    assert!(
        words(&server("curve25519-sha256", "ssh-ed25519", "aes128-ctr", "hmac-md5"))
            .unwrap()
            .ends_with("no matching MAC found. Their offer: hmac-md5")
    );
    assert!(
        words(&server("curve25519-sha256", "ssh-ed25519", "3des-cbc", "hmac-md5"))
            .unwrap()
            .ends_with("no matching cipher found. Their offer: 3des-cbc")
    );
}

#[test]
fn every_name_that_is_offered_is_one_of_the_library() {
    let has = |all: &[&str], ours: &[&str]| ours.iter().all(|name| all.contains(name));
    let kex: Vec<&str> = russh::kex::ALL_KEX_ALGORITHMS.iter().map(|&name| name.as_ref()).collect();
    let ciphers: Vec<&str> = russh::cipher::ALL_CIPHERS.iter().map(|&name| name.as_ref()).collect();
    let macs: Vec<&str> = russh::mac::ALL_MAC_ALGORITHMS.iter().map(|&name| name.as_ref()).collect();
    assert!(has(&kex, &KEX));
    assert!(has(&ciphers, &CIPHERS));
    assert!(has(&macs, &MACS));
}

#[test]
fn a_list_that_ends_early_is_none() {
    let whole = payload(["a", "b", "c", "c", "d", "d", "none", "none", "", ""]);
    assert!(Offer::parse(&whole).is_ok());
    for length in 0..whole.len() {
        assert_eq!(Offer::parse(&whole[..length]), Err(NoOffer));
    }
    assert_eq!(Offer::parse(&payload(["a\n", "", "", "", "", "", "", "", "", ""])), Err(NoOffer));
}

proptest! {
    #[test]
    fn no_payload_panics(mut bytes in prop::collection::vec(any::<u8>(), 0..200), start in any::<bool>()) {
        if start && !bytes.is_empty() {
            bytes[0] = 20;
        }
        let _ = Offer::parse(&bytes);
    }

    #[test]
    fn a_damaged_list_does_not_panic(at in 0_usize..100, with in any::<u8>()) {
        let mut bytes = payload(["kex", "key", "c", "c", "m", "m", "none", "none", "", ""]);
        let at = at % bytes.len();
        bytes[at] = with;
        let _ = Offer::parse(&bytes);
    }
}
