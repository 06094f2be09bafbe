//! Much output, and readers that stop.

use super::{local, run};

#[test]
fn output_that_is_not_taken_at_once_arrives_to_its_last_byte() {
    // More than what agents, links and pipes hold when the programs have ended.
    let script = "seq -f 'line %06.0f of 16 bytes' 1 40000; echo end $LIBI_RANK";
    for style in ["--label", "--tag"] {
        let (status, out, err) = run(&local(&["-w", "n[1-2]:2", style, "sh", "-c", script]));
        let ends = out.lines().filter(|line| line.contains(" end ")).count();
        assert_eq!((status, err.as_str(), out.lines().count(), ends), (0, "", 4 * 40_001, 4), "{style}");
    }
}
