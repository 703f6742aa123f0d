//! The suite's command as its users run it: reports, expectations, shards, exit codes.

mod support;

use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn library() -> PathBuf {
    let folder = support::artifacts();
    support::file(&folder, "libllaisys_runtime.so", "llaisys-capi")
}

/// A plugin that is right, or wrong in the way that `LLAISYS_MUTANT` says.
fn plugin() -> PathBuf {
    let examples = support::artifacts().join("examples");
    support::file(&examples, "libmutant.so", "llaisys-conformance --example mutant")
}

fn on_the_plugin(arguments: &[&str]) -> Command {
    let mut suite = support::suite(&library(), &plugin().to_string_lossy());
    suite.args(arguments);
    suite
}

fn on_the_cpu(arguments: &[&str]) -> Command {
    let mut suite = support::suite(&library(), "cpu");
    suite.args(arguments);
    suite
}

fn ended(mut command: Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } =
        command.stdin(Stdio::null()).output().expect("the suite starts");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the suite prints UTF-8");
    (status.code().expect("the suite was not killed"), text(stdout), text(stderr))
}

/// A file of this test's own.
fn file(name: &str, content: &str) -> PathBuf {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::write(&path, content).expect("the folder of temporary files can be written");
    path
}

fn without_times(mut report: Value) -> Value {
    for case in report["cases"].as_array_mut().expect("a report has cases") {
        case["ms"] = Value::Null;
    }
    report
}

#[test]
fn the_same_seed_gives_the_same_report_but_for_the_times() {
    let run = || {
        let areas = ["copies/", "memory/", "raw_", "errors/", "events/"];
        let filters: Vec<&str> = areas.iter().flat_map(|area| ["--filter", area]).collect();
        let suite = on_the_plugin(&[&["--quick", "--seed", "7"][..], &filters].concat());
        without_times(support::report(suite).0)
    };
    let (first, second) = (run(), run());
    let cases = |report: &Value| report["cases"].as_array().expect("a report has cases").clone();
    assert!(cases(&first).len() > 200, "{first:#}");
    // One by one, so that a difference can be read.
    for (one, other) in cases(&first).iter().zip(&cases(&second)) {
        assert_eq!(one, other);
    }
    assert_eq!(first, second);
}

#[test]
fn the_data_of_a_case_is_that_of_its_seed() {
    // The fault shows the bytes that were expected and found.
    let run = |seed: &str| {
        let case = "a_batch_copies_every_range";
        let mut suite = on_the_plugin(&["--seed", seed, "--mode", "raw", "--filter", case]);
        suite.env("LLAISYS_MUTANT", "batches_lose_their_last_range");
        let report = without_times(support::report(suite).0);
        assert_eq!(report["cases"][0]["outcome"], "FAIL", "{report:#}");
        report["cases"][0]["message"].clone()
    };
    assert_eq!(run("1"), run("1"));
    assert_ne!(run("1"), run("2"));
}

#[test]
fn a_report_says_what_was_tested() {
    let report = support::assert_conforms(on_the_plugin(&["--filter", "every_size_is_aligned"]), 1);
    assert_eq!(report["plugin"]["name"], "mutant");
    assert_eq!(
        report["plugin"]["path"],
        plugin().canonicalize().expect("it is there").to_string_lossy()[..]
    );
    let hash = report["plugin"]["sha256"].as_str().unwrap_or_default();
    let own = Command::new("sha256sum").arg(plugin()).output().expect("sha256sum starts");
    assert_eq!(Some(hash), String::from_utf8_lossy(&own.stdout).split(' ').next());
    for field in ["library", "abi"] {
        assert!(report["versions"][field].is_string(), "{field}: {report:#}");
    }
    assert!(report["device"].as_str().is_some_and(|name| !name.is_empty()));
    assert!(report["driver"].is_number() && report["seed"].is_number());
    for field in ["name", "mode", "area", "clause", "outcome", "ms", "message"] {
        assert!(!report["cases"][0][field].is_null(), "{field}: {report:#}");
    }
}

/// What Python's own parser reads in a JUnit file: of the whole, tests, failures, errors and skipped, as
/// it is said and as it is counted; then the messages.
const READ_JUNIT: &str = r#"
import json, sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
assert root.tag == "testsuites", root.tag
said = [int(root.get(name)) for name in ("tests", "failures", "errors", "skipped")]
counted = [len(root.findall(".//" + tag)) for tag in ("testcase", "failure", "error", "skipped")]
sums = [sum(int(suite.get(name)) for suite in root) for name in ("tests", "failures", "errors", "skipped")]
assert all(suite.tag == "testsuite" and suite.get("name") for suite in root)
for case in root.iter("testcase"):
    assert case.get("name") and case.get("classname") and float(case.get("time")) >= 0
messages = [one.get("message") for case in root.iter("testcase") for one in case]
print(json.dumps({"said": said, "counted": counted, "sums": sums, "messages": messages}))
"#;

#[test]
fn the_junit_file_is_xml_and_says_what_the_report_says() {
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("report.xml");
    let mut suite = on_the_plugin(&["--quick", "--stall", "0.5", "--junit"]);
    suite.arg(&path).env("LLAISYS_MUTANT", "freeing_waits");
    // A failure, a hang, a skip and what is not supported; the clause has brackets and quotes are in texts.
    for area in ["raw_work/", "memory/a_free", "memory/memory_limits", "devices/", "raw_outputs/"] {
        suite.args(["--filter", area]);
    }
    let (report, _) = support::report(suite);
    let python = Command::new("python3").args(["-c", READ_JUNIT]).arg(&path).output();
    let python = python.expect("python3 starts");
    let errors = String::from_utf8_lossy(&python.stderr);
    assert!(python.status.success(), "not the XML that it should be: {errors}");
    let read: Value = serde_json::from_slice(&python.stdout).expect("the script prints JSON");
    let count = |outcomes: &[&str]| support::cases(&report, outcomes).len();
    let expected = serde_json::json!([
        report["cases"].as_array().map_or(0, Vec::len),
        count(&["FAIL", "LEAK", "XPASS"]),
        count(&["CRASH", "TIMEOUT"]),
        count(&["SKIP", "NOT_SUPPORTED", "XFAIL"]),
    ]);
    assert!(count(&["TIMEOUT"]) > 0 && count(&["SKIP"]) > 0, "{report:#}");
    assert_eq!((&read["said"], &read["counted"], &read["sums"]), (&expected, &expected, &expected));
    let messages = read["messages"].as_array().expect("a list");
    for case in report["cases"].as_array().expect("a list").iter() {
        if case["outcome"] != "PASS" {
            let text = case["message"].as_str().unwrap_or_default();
            let found = messages.iter().filter_map(Value::as_str).any(|one| one.contains(text));
            assert!(found, "{text}");
        }
    }
}

#[test]
fn what_is_known_to_fail_does_not_fail_the_run_and_what_passes_again_does() {
    let run = |expectations: &Path, mutant: &str| {
        let mut suite = on_the_plugin(&["--filter", "fills_exactly_its_range", "--expect"]);
        suite.arg(expectations).args(["--mode", "core"]).env("LLAISYS_MUTANT", mutant);
        ended(suite)
    };
    let text = "# known\nevery_pattern_fills_exactly_its_range FAIL the last pattern is lost\n\
                an_enqueued_fill_fills_exactly_its_range FAIL as above\n";
    let expectations = file("expectations.txt", text);
    let (code, out, told) = run(&expectations, "fills_lose_the_last_pattern");
    let report: Value = serde_json::from_str(&out).expect("a report");
    assert_eq!(code, 0, "{told}");
    assert_eq!(support::cases(&report, &["XFAIL"]).len(), 2, "{told}");
    let message = report["cases"][0]["message"].as_str().unwrap_or_default();
    assert!(message.contains("the last pattern is lost"), "{message}");
    let (code, out, told) = run(&expectations, "");
    let report: Value = serde_json::from_str(&out).expect("a report");
    assert_eq!(code, 1, "{told}");
    assert_eq!(support::cases(&report, &["XPASS"]).len(), 2, "{told}");
    for (name, text, said) in [
        ("unknown.txt", "no_such_case FAIL why\n", "line 1: there is no case `no_such_case`"),
        ("syntax.txt", "\nevery_size_is_aligned\n", "line 2: `every_size_is_aligned`"),
    ] {
        let (code, out, told) = run(&file(name, text), "");
        assert_eq!((code, out.as_str()), (2, ""), "{told}");
        assert!(told.contains(said), "{said} is not in: {told}");
    }
    let (code, _, told) = run(Path::new("/nowhere/expectations"), "");
    assert!(code == 2 && told.contains("/nowhere/expectations: No such file"), "{told}");
}

/// The cases that `--list` prints.
fn listed(arguments: &[&str]) -> Vec<String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_llaisys-conformance"));
    command.arg("--list").args(arguments);
    let (code, out, told) = ended(command);
    assert_eq!(code, 0, "{told}");
    out.lines().map(str::to_owned).collect()
}

#[test]
fn shards_are_the_whole_and_share_nothing_and_a_profile_is_a_part() {
    let all = listed(&[]);
    let shards: Vec<String> =
        ["1/3", "2/3", "3/3"].iter().flat_map(|shard| listed(&["--shard", shard])).collect();
    assert_eq!(shards.len(), all.len());
    let distinct: BTreeSet<&String> = shards.iter().collect();
    assert_eq!(distinct, all.iter().collect());
    let core = listed(&["--profile", "core"]);
    assert!(core.len() > 200 && core.len() < all.len(), "{} of {}", core.len(), all.len());
    assert!(core.iter().all(|case| !case.starts_with("events/")));
    let raw = listed(&["--mode", "raw"]);
    assert!(raw.len() >= 25 && raw.iter().all(|case| case.starts_with("raw_")), "{}", raw.len());
    assert_eq!(raw.len() + listed(&["--mode", "core"]).len(), all.len());
}

#[test]
fn a_case_is_repeated_with_other_data_until_it_fails() {
    let repeated = ["--repeat", "3", "--mode", "raw", "--filter", "a_fill_writes_exactly"];
    let (report, _) = support::report(on_the_plugin(&repeated));
    assert_eq!((&report["cases"][0]["runs"], &report["repeat"]), (&3.into(), &3.into()));
    let mut suite = on_the_plugin(&repeated);
    suite.args(["--seed", "40"]).env("LLAISYS_MUTANT", "fills_lose_the_last_pattern");
    let (report, _) = support::report(suite);
    assert_eq!(report["cases"][0]["runs"], 1);
    let message = report["cases"][0]["message"].as_str().unwrap_or_default();
    assert!(message.starts_with("run 1 of 3 (--seed 40): "), "{message}");
}

#[test]
fn what_cannot_be_tested_is_said_and_ends_with_2() {
    for (target, arguments, said) in [
        ("cpu", &["--mode", "raw"][..], "built into the library"),
        ("toaster", &[], "no device type is called `toaster`; there are cpu"),
        ("/nowhere/plugin.so", &[], "No such file"),
        ("cpu", &["--filter", "nothing is called so"], "no case fits"),
        ("cpu", &["--shard", "4/3"], "I from 1 to N"),
        ("cpu", &["--timeout", "0"], "seconds above 0"),
        (
            "cpu",
            &["--junit", "/nowhere/report.xml", "--filter", "every_size_is"],
            "/nowhere/report.xml",
        ),
    ] {
        let mut suite = support::suite(&library(), target);
        suite.args(arguments);
        let (code, _, told) = ended(suite);
        // A report that cannot be written is a failed run, not a wrong question.
        assert_eq!(code, if said.contains("report.xml") { 1 } else { 2 }, "{told}");
        assert!(told.contains(said), "{said} is not in: {told}");
    }
    let text = file("not_a_plugin.so", "no ELF file");
    let (code, _, told) = ended(support::suite(&library(), &text.to_string_lossy()));
    assert!(code == 2 && told.contains("not_a_plugin.so"), "{code}: {told}");
}

#[test]
fn a_report_on_a_full_disk_is_a_failure_and_no_panic() {
    for arguments in [&["--filter", "every_size_is_aligned"][..], &["--list"], &["--operations"]] {
        let full =
            fs::OpenOptions::new().write(true).open("/dev/full").expect("it is always there");
        let mut suite = on_the_cpu(arguments);
        let ended = suite.stdin(Stdio::null()).stdout(full).output().expect("the suite starts");
        let told = String::from_utf8_lossy(&ended.stderr);
        assert_eq!(ended.status.code(), Some(1), "{arguments:?}: {told}");
        assert!(told.contains("could not be written: No space left"), "{arguments:?}: {told}");
        assert!(!told.contains("panicked"), "{arguments:?}: {told}");
    }
}

#[test]
fn a_report_for_people_keeps_to_80_columns_and_ends_with_the_verdict() {
    let mut suite = Command::new(env!("CARGO_BIN_EXE_llaisys-conformance"));
    suite.arg("cpu").arg("--library").arg(library()).args(["--quick", "--filter", "plugins/"]);
    suite.args(["--filter", "nvidia_driver/", "--jobs", "2"]).env_remove("LLAISYS_BACKENDS");
    let (code, out, told) = ended(suite);
    assert_eq!(code, 0, "{told}");
    for line in out.lines() {
        assert!(line.chars().count() <= 80, "{} columns: {line}", line.chars().count());
    }
    let last = out.lines().last().unwrap_or_default();
    assert!(last.starts_with("cpu conforms: "), "{last}");
}
