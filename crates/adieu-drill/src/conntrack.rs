//! The kernel's table of tracked connections. When it is full the kernel drops packets, and connections that look lost
//! or refused are not the program's fault.

use std::fs;
use std::path::Path;

/// Where the kernel tells of it. Absent where connections are not tracked.
pub(crate) const TABLE: &str = "/proc/sys/net/netfilter";

/// A sentence with the remedy, if the table is full or nearly so.
pub(crate) fn full(table: &Path) -> Option<String> {
    let read = |name: &str| -> Option<u64> {
        let text = fs::read_to_string(table.join(name)).ok()?;
        text.trim().parse().ok()
    };
    let (count, most) = (read("nf_conntrack_count")?, read("nf_conntrack_max")?);
    // Entries come and go by the thousand: a look rarely meets the last one. A limit of 0 is none.
    (most > 0 && count >= most - most / 20).then(|| {
        format!(
            "the kernel's table of tracked connections is full ({count} of {most} entries), so it drops packets; raise \
             it with `sysctl net.netfilter.nf_conntrack_max={}`, or end what fills it (`conntrack -S`, `dmesg`)",
            most.saturating_mul(4)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_is_full_near_its_limit_and_absent_without_tracking() {
        let folder = tempfile::tempdir().expect("a directory");
        assert_eq!(full(folder.path()), None);
        let write = |count: &str| {
            fs::write(folder.path().join("nf_conntrack_max"), "262144\n").expect("a file");
            fs::write(folder.path().join("nf_conntrack_count"), count).expect("a file");
        };
        for (count, is_full) in [
            ("12\n", false),
            ("240000", false),
            ("262144\n", true),
            ("x", false),
        ] {
            write(count);
            assert_eq!(full(folder.path()).is_some(), is_full, "{count}");
        }
        write("262140");
        let said = full(folder.path()).expect("it is full");
        assert!(said.contains("262140 of 262144"), "{said}");
        assert!(said.contains("nf_conntrack_max=1048576"), "{said}");
    }

    /// A program that fails while the table is full is not judged.
    #[cfg(unix)]
    #[tokio::test]
    async fn a_failure_under_a_full_table_is_not_judged() {
        use crate::report::Outcome;
        use crate::{Drill, Ready};

        let folder = tempfile::tempdir().expect("a directory");
        fs::write(folder.path().join("nf_conntrack_max"), "100").expect("a file");
        for (count, outcome) in [("1", Outcome::Failed), ("100", Outcome::Skipped)] {
            fs::write(folder.path().join("nf_conntrack_count"), count).expect("a file");
            let mut drill = Drill::command([
                "sh",
                "-c",
                "trap 'exit 9' TERM; echo ready; sleep 60 & wait",
            ])
            .ready(Ready::Line("ready".to_owned()))
            .check("exit-code");
            drill.conntrack = folder.path().to_owned();
            let report = drill.run().await.expect("it can be drilled");
            let check = &report.checks[0];
            assert_eq!(check.outcome, outcome, "{check:?}");
            let told = check.reason.contains("not judged: the kernel's table");
            assert_eq!(told, outcome == Outcome::Skipped, "{check:?}");
        }
    }
}
