//! The fake answers what an H200 answered: the program `ask` is run over it and compared with `answers-h200.txt`.

#[path = "../examples/ask/main.rs"]
mod asking;

use std::collections::BTreeMap;

/// Areas where the real driver ends the process (the fake answers an error and counts), or promises less
/// than it does (the fake keeps to the promise).
const NOT_COMPARED: &[&str] = &["destroyed-event", "destroyed-stream", "staging"];

/// Areas whose answers the fake is not held to yet: the H200's are in `answers-h200-to-meet.txt`, but for
/// the last two areas and `batches-gate`, which it was not asked. The list is to become empty.
const NOT_ANSWERED_YET: &[&str] = &[
    "batches",
    "batches-gate",
    "managed",
    "managed-hints",
    "peer-pitched",
    "pitched",
    "pitched-gate",
    "pool-marks",
];

fn main() {
    if std::env::args().nth(1).is_some_and(|argument| argument.ends_with("libcuda.so")) {
        return asking::main();
    }
    let program = std::env::current_exe().expect("a running program has a path");
    let expected = by_area(include_str!("../answers-h200.txt"));
    assert!(expected.len() > 40, "answers-h200.txt is not whole");
    // Whether a call waits is read off a clock, so a machine that is very busy is asked again.
    let mut wrong = ask(&program, &expected);
    if !wrong.is_empty() {
        println!("asked again: {wrong:#?}");
        wrong = ask(&program, &expected);
    }
    println!(
        "{} answers in {} areas",
        expected.values().map(Vec::len).sum::<usize>(),
        expected.len()
    );
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Asks the fake, and gives the answers that differ.
fn ask(program: &std::path::Path, expected: &BTreeMap<String, Vec<String>>) -> Vec<String> {
    let library = program.with_file_name("libcuda.so");
    let output = std::process::Command::new(program)
        .arg(&library)
        .output()
        .expect("the program can start itself");
    let said = by_area(&String::from_utf8_lossy(&output.stdout));
    let mut wrong = Vec::new();
    let unanswered: Vec<&str> =
        said.keys().map(String::as_str).filter(|area| !expected.contains_key(*area)).collect();
    if unanswered != NOT_ANSWERED_YET {
        wrong.push(format!("the driver was not asked {unanswered:?}"));
    }
    for (area, lines) in expected.iter().filter(|(area, _)| !NOT_COMPARED.contains(&area.as_str()))
    {
        let empty = Vec::new();
        let answers = said.get(area).unwrap_or(&empty);
        for index in 0..lines.len().max(answers.len()) {
            let (real, fake) = (lines.get(index), answers.get(index));
            if real != fake {
                wrong.push(format!("{area}: the driver says {real:?}, the fake {fake:?}"));
            }
        }
    }
    wrong
}

fn by_area(text: &str) -> BTreeMap<String, Vec<String>> {
    let mut areas: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut current = String::new();
    for line in text.lines() {
        match line.strip_prefix("== ") {
            Some(area) => current = area.to_owned(),
            None => areas.entry(current.clone()).or_default().push(line.to_owned()),
        }
    }
    areas
}
