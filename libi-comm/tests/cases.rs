//! The files of cases can be read, and have cases.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[test]
fn every_file_of_cases_can_be_read() {
    for (name, text) in libi_cases::FILES {
        let sessions = libi_cases::sessions(text).unwrap_or_else(|error| panic!("{name}: {error}"));
        let steps: usize = sessions.iter().map(|session| session.steps.len()).sum();
        println!("{name}: {} sessions, {steps} steps", sessions.len());
        assert!(sessions.iter().all(|session| !session.steps.is_empty()), "{name}");
    }
}
