//! For build servers.

use adieu_drill::render::junit;

use crate::sample;

#[test]
fn a_case_for_each_check() {
    insta::assert_snapshot!(junit(&[sample::failing()]));
}

#[test]
fn what_xml_cannot_hold_is_spelled_out() {
    let mut report = sample::failing();
    report.checks[1].reason = "]]> <b> & \"quoted\" \u{0}\u{1b}[1m".to_owned();
    let xml = junit(&[report]);
    assert!(
        xml.contains("]]&gt; &lt;b&gt; &amp; &quot;quoted&quot; \\u{0}\\u{1b}[1m"),
        "{xml}"
    );
}
