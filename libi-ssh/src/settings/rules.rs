//! Decides which keywords of ssh_config(5) are understood, and with which values.
//!
//! Every line of `ssh -G` must have a rule here. A keyword without one belongs to a version of `ssh`
//! that is newer than this list, and may change what a login means.
//!
//! `UpdateHostKeys` is ignored: further keys that a server has are not learned. That changes no
//! login, only how a later change of keys is met.

/// What a keyword means for a login by the helper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// It has no effect on a command without a terminal, forwardings or questions.
    Ignored,
    /// It becomes a setting.
    Read,
    /// Only these values are understood.
    Only(&'static [&'static str]),
    /// As [`Only`](Self::Only), but no matter for a jump host.
    OnlyTarget(&'static [&'static str]),
    /// `yes` is understood if there can be no Kerberos credentials.
    Kerberos,
    /// It is understood if `ClearAllForwardings` removes it.
    Forwarding,
    /// It is understood if nothing listens there.
    SharedConnection,
}

use Rule::{Forwarding, Ignored, Kerberos, Only, OnlyTarget, Read, SharedConnection};

const NO: Rule = Only(&["no", "false"]);
const NONE: Rule = Only(&["none"]);
const TARGET_NO: Rule = OnlyTarget(&["no", "false"]);

/// The rule of a keyword, and how ssh_config(5) spells it.
pub(super) fn rule(keyword: &str) -> Option<(&'static str, Rule)> {
    RULES.iter().copied().find(|(name, _)| name.eq_ignore_ascii_case(keyword))
}

const RULES: [(&str, Rule); 114] = [
    ("AddKeysToAgent", NO),
    ("AddressFamily", Read),
    ("BatchMode", OnlyTarget(&["yes"])),
    ("BindAddress", Read),
    ("BindInterface", NONE),
    ("CanonicalDomains", Ignored),
    ("CanonicalizeFallbackLocal", Ignored),
    ("CanonicalizeHostname", Only(&["false", "no", "none"])),
    ("CanonicalizeMaxDots", Ignored),
    ("CanonicalizePermittedCNAMEs", Ignored),
    ("CASignatureAlgorithms", Read),
    ("CertificateFile", Read),
    ("ChallengeResponseAuthentication", Ignored),
    ("ChannelTimeout", NONE),
    ("CheckHostIP", Read),
    ("Ciphers", Read),
    ("ClearAllForwardings", Read),
    ("Compression", NO),
    ("CompressionLevel", Ignored),
    ("ConnectionAttempts", Read),
    ("ConnectTimeout", Read),
    ("ControlMaster", TARGET_NO),
    ("ControlPath", SharedConnection),
    ("ControlPersist", Ignored),
    ("DynamicForward", Forwarding),
    ("EnableEscapeCommandline", Ignored),
    ("EnableSSHKeysign", Ignored),
    ("EscapeChar", Ignored),
    ("ExitOnForwardFailure", Ignored),
    ("FingerprintHash", Only(&["SHA256"])),
    ("ForkAfterAuthentication", NO),
    ("ForwardAgent", TARGET_NO),
    ("ForwardX11", TARGET_NO),
    ("ForwardX11Timeout", Ignored),
    ("ForwardX11Trusted", Ignored),
    ("GatewayPorts", Ignored),
    ("GlobalKnownHostsFile", Read),
    ("GSSAPIAuthentication", Kerberos),
    ("GSSAPIClientIdentity", Ignored),
    ("GSSAPIDelegateCredentials", Ignored),
    ("GSSAPIKexAlgorithms", Ignored),
    ("GSSAPIKeyExchange", Kerberos),
    ("GSSAPIRenewalForcesRekey", Ignored),
    ("GSSAPIServerIdentity", Ignored),
    ("GSSAPITrustDns", Ignored),
    ("HashKnownHosts", Read),
    ("Host", Ignored),
    ("HostbasedAcceptedAlgorithms", Ignored),
    ("HostbasedAuthentication", NO),
    ("HostbasedKeyTypes", Ignored),
    ("HostKeyAlgorithms", Read),
    ("HostKeyAlias", Read),
    ("HostName", Read),
    ("IdentitiesOnly", Read),
    ("IdentityAgent", Read),
    ("IdentityFile", Read),
    ("IgnoreUnknown", Ignored),
    ("IPQoS", Ignored),
    ("KbdInteractiveAuthentication", Ignored),
    ("KbdInteractiveDevices", Ignored),
    ("KexAlgorithms", Read),
    ("KnownHostsCommand", NONE),
    ("LocalCommand", Ignored),
    ("LocalForward", Forwarding),
    ("LogLevel", Read),
    ("LogVerbose", NONE),
    ("MACs", Read),
    ("NoHostAuthenticationForLocalhost", Read),
    ("NumberOfPasswordPrompts", Ignored),
    ("ObscureKeystrokeTiming", Ignored),
    ("PasswordAuthentication", Ignored),
    ("PermitLocalCommand", NO),
    ("PermitRemoteOpen", Ignored),
    ("PKCS11Provider", NONE),
    ("Port", Read),
    ("PreferredAuthentications", Read),
    ("ProxyCommand", NONE),
    ("ProxyJump", Read),
    ("ProxyUseFdpass", NO),
    ("PubkeyAcceptedAlgorithms", Read),
    ("PubkeyAcceptedKeyTypes", Read),
    ("PubkeyAuthentication", Read),
    ("RekeyLimit", Only(&["0 0"])),
    ("RemoteCommand", NONE),
    ("RemoteForward", Forwarding),
    ("RequestTTY", Only(&["auto", "false", "no"])),
    ("RequiredRSASize", Read),
    ("RevokedHostKeys", NONE),
    // The same in distributions that had it before OpenSSH 9.1.
    ("RSAMinSize", Read),
    ("SecurityKeyProvider", Only(&["internal"])),
    ("SendEnv", Read),
    ("ServerAliveCountMax", Read),
    ("ServerAliveInterval", Read),
    ("SessionType", OnlyTarget(&["default"])),
    ("SetEnv", Read),
    ("StdinNull", NO),
    ("StreamLocalBindMask", Ignored),
    ("StreamLocalBindUnlink", Ignored),
    ("StrictHostKeyChecking", Read),
    ("SyslogFacility", Ignored),
    ("Tag", Ignored),
    ("TCPKeepAlive", Read),
    ("Tunnel", TARGET_NO),
    ("TunnelDevice", Ignored),
    ("UpdateHostKeys", Ignored),
    ("UsePrivilegedPort", NO),
    ("User", Read),
    ("UserKnownHostsFile", Read),
    ("VerifyHostKeyDNS", NO),
    ("VersionAddendum", NONE),
    ("VisualHostKey", NO),
    ("WarnWeakCrypto", Ignored),
    ("WarnWeakCryptoNoPQKex", Ignored),
    ("XAuthLocation", Ignored),
];
