//! What this processor is fast with, for the encryption of direct links.

use libi_core::secure::CipherOffer;

/// The ciphers to offer for a direct link.
pub(super) fn cipher_offer() -> CipherOffer {
    if has_aes_instructions() { CipherOffer::AES_INSTRUCTIONS } else { CipherOffer::PORTABLE }
}

#[cfg(any(target_arch = "x86_64", target_arch = "x86"))]
fn has_aes_instructions() -> bool {
    std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("avx")
}

#[cfg(target_arch = "aarch64")]
fn has_aes_instructions() -> bool {
    std::arch::is_aarch64_feature_detected!("aes")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "x86", target_arch = "aarch64")))]
fn has_aes_instructions() -> bool {
    false
}
