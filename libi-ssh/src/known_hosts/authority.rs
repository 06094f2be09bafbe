//! Decides whether a certificate stands for a host, once its authority is known to be trusted.

use std::time::{SystemTime, UNIX_EPOCH};

use russh::keys::Certificate;
use russh::keys::ssh_key::certificate::CertType;

/// Why a certificate is refused, in the words of `ssh`.
///
/// An empty list of principals is refused. Old versions of `ssh` let it stand for every host, new
/// ones do not.
pub(super) fn refusal(
    certificate: &Certificate,
    host: &str,
    now: SystemTime,
    signatures: &[String],
) -> Option<&'static str> {
    let now = now.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let principals = certificate.valid_principals();
    let reasons = [
        (certificate.cert_type() != CertType::Host, "Certificate invalid: not a host certificate"),
        (now < certificate.valid_after(), "Certificate invalid: not yet valid"),
        (now >= certificate.valid_before(), "Certificate invalid: expired"),
        (principals.is_empty(), "Certificate lacks principal list"),
        (
            !principals.iter().any(|principal| principal == host),
            "Certificate invalid: name is not a listed principal",
        ),
        (!certificate.critical_options().is_empty(), "Certificate contains unsupported critical options(s)"),
        (
            !signatures.iter().any(|allowed| *allowed == certificate.signature().algorithm().to_string()),
            "Certificate signed with disallowed algorithm",
        ),
        (certificate.verify_signature().is_err(), "Certificate invalid: bad signature"),
    ];
    reasons.into_iter().find_map(|(refused, reason)| refused.then_some(reason))
}
