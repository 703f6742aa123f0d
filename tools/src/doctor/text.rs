//! The report for people: what was found, then what is wrong and what to do, worst first.
//!
//! Rule: no line is longer than 80 columns or the terminal, but a command, which is whole so that it
//! can be copied. What was not found takes no line.

use super::Report;
use super::backends::Candidate;
use super::compatibility::Verdict;
use super::driver::Driver;
use super::fault::{Fault, Severity};
use super::library::Library;
use super::place::Origin;
use super::toolkit::Toolkit;
use crate::print;

/// Where the text of an entry begins.
const INDENT: usize = 16;

/// Prints it.
pub fn print(report: &Report) {
    let mut page = Page { width: print::width(), lines: Vec::new() };
    page.line(&format!("llaisys-runtime {}, {}", report.version, report.machine.describe()));
    page.driver(report);
    page.libraries(&report.libraries);
    page.toolkits(report);
    page.devices(report);
    page.candidates(report);
    page.environment(report);
    page.faults(report);
    print::line(page.lines.join("\n"));
}

struct Page {
    width: usize,
    lines: Vec<String>,
}

impl Page {
    fn line(&mut self, text: &str) {
        self.lines.extend(wrap(text, self.width));
    }

    fn heading(&mut self, text: &str) {
        self.lines.push(String::new());
        self.line(text);
    }

    /// A label, and text beside it.
    fn entry(&mut self, label: &str, text: &str) {
        let room = self.width - INDENT;
        let mut label = format!("  {label}");
        if label.chars().count() >= INDENT {
            self.lines.push(std::mem::take(&mut label));
        }
        for line in text.lines().flat_map(|line| wrap(line, room)) {
            self.lines.push(format!("{label:INDENT$}{line}"));
            label.clear();
        }
    }

    fn driver(&mut self, report: &Report) {
        let driver = &report.driver;
        self.heading("Driver");
        if let Some(release) = &driver.kernel_module {
            let kind = driver.kernel_module_kind.unwrap_or_default();
            self.entry("kernel module", &format!("{release} ({kind})"));
        }
        if let Some(library) = report.driver_library() {
            let version = version_of(library);
            self.entry("library", &format!("{version} {}", library.path.display()));
        }
        if let Some(cuda) = &driver.cuda {
            let beyond = match cuda.split_once('.').and_then(|(major, _)| major.parse::<u32>().ok())
            {
                Some(major) if major >= 11 => format!("; later {major}.x in part (no PTX)"),
                _ => String::new(),
            };
            self.entry("is for", &format!("CUDA {cuda} and older{beyond}"));
        }
        for gpu in &driver.gpus {
            let model = gpu.model.as_deref().unwrap_or("NVIDIA GPU");
            let bound_to = gpu.bound_to.as_deref().unwrap_or("no driver");
            self.entry("GPU", &format!("{model} at {}, held by {bound_to}", gpu.pci_address));
        }
        if !driver.nodes.is_empty() {
            self.entry("device nodes", &nodes(driver));
        }
        if let Some(answer) = answer(driver) {
            self.entry("answers", &answer);
        }
        if !report.is_nvidia_there() && driver.cuda.is_none() {
            self.entry("none", "no NVIDIA GPU, kernel module or driver library was found");
        }
    }

    fn libraries(&mut self, libraries: &[Library]) {
        if libraries.iter().all(Library::is_idle_stub) {
            return;
        }
        self.heading("Libraries (* the dynamic linker's choice)");
        for library in libraries.iter().filter(|library| !library.is_idle_stub()) {
            let mark = if library.first { '*' } else { ' ' };
            let text = format!(
                "{} {} {}",
                version_of(library),
                library.path.display(),
                match library.origin {
                    Origin::System => String::new(),
                    origin => format!("({})", origin.name()),
                }
            );
            self.entry(&format!("{mark} {}", library.name), text.trim_end());
        }
    }

    fn toolkits(&mut self, report: &Report) {
        if report.toolkits.is_empty() {
            return;
        }
        self.heading("Toolkits and runtimes");
        for toolkit in &report.toolkits {
            let version = toolkit.version.as_ref().map_or("?".to_owned(), ToString::to_string);
            self.entry(&format!("CUDA {version}"), &about(toolkit));
        }
    }

    fn devices(&mut self, report: &Report) {
        if report.devices.is_empty() {
            return;
        }
        self.heading("Devices");
        for device in &report.devices {
            let mut text = device.name.clone().unwrap_or_else(|| "(no name)".to_owned());
            if let (Some(capability), Some(meaning)) = (&device.compute_capability, &device.meaning)
            {
                text.push_str(&format!(
                    ", compute capability {capability}\ntoolkits: {}\ncode: {}",
                    meaning.toolkits(),
                    meaning.code()
                ));
            }
            self.entry(&device.label(), &text);
        }
    }

    fn candidates(&mut self, report: &Report) {
        if report.candidates.is_empty() {
            return;
        }
        self.heading("Backends");
        for candidate in &report.candidates {
            let name = candidate.name.as_deref().unwrap_or("?");
            self.entry(name, &said(candidate));
        }
    }

    fn environment(&mut self, report: &Report) {
        if report.environment.is_empty() {
            return;
        }
        self.heading("Environment");
        for variable in &report.environment {
            self.line(&format!("  {}={}", variable.name, variable.value));
            self.entry("", variable.meaning);
        }
    }

    fn faults(&mut self, report: &Report) {
        let count = |severity| report.faults.iter().filter(|f| f.severity == severity).count();
        let (errors, warnings) = (count(Severity::Error), count(Severity::Warning));
        let text = match (errors, warnings) {
            (0, 0) if report.asked => "No fault: all that was found can be used.".to_owned(),
            (0, 0) => "No fault.".to_owned(),
            _ => format!("{}, {}", number(errors, "error"), number(warnings, "warning")),
        };
        self.heading(&text);
        for (index, fault) in report.faults.iter().enumerate() {
            self.fault(index + 1, fault);
        }
    }

    fn fault(&mut self, number: usize, fault: &Fault) {
        let severity = match fault.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        self.lines.push(String::new());
        self.line(&format!("{number}. {severity} {}", fault.code.name()));
        let mut paragraph = |text: &str| {
            for line in wrap(text, self.width - 3) {
                self.lines.push(format!("   {line}"));
            }
        };
        paragraph(&sentence(&fault.what));
        paragraph(&fault.advice);
        if let Some(command) = &fault.command {
            self.lines.push(format!("     $ {command}"));
        }
    }
}

impl Library {
    /// A toolkit has it to link against, as it should be, and no program takes it.
    fn is_idle_stub(&self) -> bool {
        self.origin == Origin::Stub && !self.first
    }
}

fn version_of(library: &Library) -> String {
    library.version.as_ref().map_or("(release unknown)".to_owned(), ToString::to_string)
}

fn nodes(driver: &Driver) -> String {
    let names: Vec<String> = driver
        .nodes
        .iter()
        .map(|node| {
            let name = node.path.trim_start_matches("/dev/");
            if node.permitted { name.to_owned() } else { format!("{name} (not permitted)") }
        })
        .collect();
    names.join(", ")
}

/// What the driver said, when it said something.
fn answer(driver: &Driver) -> Option<String> {
    let answer = driver.asked.as_ref()?;
    if let Some(seconds) = answer.no_answer_within {
        return Some(format!("nothing within {seconds} s"));
    }
    match (answer.code?, answer.devices) {
        (0, Some(1)) => Some("1 device".to_owned()),
        (0, Some(count)) => Some(format!("{count} devices")),
        (code, _) => {
            let name = answer.code_name.clone().unwrap_or_else(|| "CUDA error".to_owned());
            Some(format!("{name} ({code})"))
        }
    }
}

fn about(toolkit: &Toolkit) -> String {
    let mut parts = vec![toolkit.path.display().to_string()];
    let kind = toolkit.kind.name();
    parts.push(if toolkit.default {
        format!("({kind}, the default)")
    } else {
        format!("({kind})")
    });
    let text = parts.join(" ");
    let least = toolkit.driver_minimum.as_ref();
    let needs = least.map_or("needs a driver of its major".to_owned(), |least| {
        match &toolkit.driver_full {
            Some(full) if full != least => format!("needs driver {least}, for all of it {full}"),
            _ => format!("needs driver {least}"),
        }
    });
    let here = match toolkit.verdict {
        Verdict::Full => "the driver runs it",
        Verdict::MinorVersion => "the driver is older and runs it in part",
        Verdict::DriverTooOld => "the driver is too old",
        Verdict::Unknown => "the driver is not known",
    };
    let compat = toolkit.compat.as_ref().map_or(String::new(), |release| {
        format!("\nhas forward-compatibility libraries, {release}")
    });
    format!("{text}\n{needs}; {here}{compat}")
}

/// The loader's record of a backend.
fn said(candidate: &Candidate) -> String {
    let mut lines = Vec::new();
    if candidate.taken {
        lines.push(format!("in use, {}", candidate.reason));
    } else {
        lines.push(format!("refused, {}: {}", candidate.status, candidate.reason));
    }
    lines.extend(candidate.path.clone());
    match &candidate.no_device {
        _ if !candidate.taken => {}
        Some(reason) => {
            let code = match (&reason.native_name, reason.native_code) {
                (Some(name), Some(code)) if !reason.message.contains(name.as_str()) => {
                    format!(" ({name} {code})")
                }
                _ => String::new(),
            };
            lines.push(format!("no device, {}: {}{code}", reason.status, reason.message));
        }
        None => lines.push(match candidate.device_count {
            0 => "no device".to_owned(),
            count => number(count as usize, "device"),
        }),
    }
    lines.join("\n")
}

fn number(count: usize, what: &str) -> String {
    if count == 1 { format!("1 {what}") } else { format!("{count} {what}s") }
}

/// Begins with a capital letter and ends with a full stop.
fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string()).unwrap_or_default();
    // A path or a variable begins as it is written.
    let is_word = text
        .split_whitespace()
        .next()
        .is_some_and(|word| !word.contains('/') && !word.starts_with("lib"));
    let text = if is_word { first + letters.as_str() } else { text.to_owned() };
    if text.ends_with('.') { text } else { format!("{text}.") }
}

/// Lines of at most so many columns. A word that is longer is broken, a path behind a `/`.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let indent = text.chars().take_while(|letter| *letter == ' ').count();
    let mut line = " ".repeat(indent);
    let mut empty = true;
    for word in text.split_whitespace() {
        let mut word = word.to_owned();
        loop {
            let used = line.chars().count() + usize::from(!empty);
            if used + word.chars().count() <= width {
                if !empty {
                    line.push(' ');
                }
                line.push_str(&word);
                empty = false;
                break;
            }
            if empty {
                // Alone on its line and still too long.
                let rest = width.saturating_sub(line.chars().count()).max(1);
                let fits: String = word.chars().take(rest).collect();
                let at = fits.rfind('/').map_or(fits.len(), |at| at + 1);
                let at = if at <= 1 { fits.len() } else { at };
                line.push_str(&word[..at]);
                word.drain(..at);
            }
            lines.push(std::mem::replace(&mut line, " ".repeat(indent)));
            empty = true;
        }
    }
    if !empty || lines.is_empty() {
        lines.push(line);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::{sentence, wrap};

    #[test]
    fn lines_keep_their_width_and_lose_no_letter() {
        let text =
            "one /usr/lib/x86_64-linux-gnu/libcuda.so.535.104.05 two abcdefghijklmnopqrstuvw";
        for width in [10, 17, 24, 80] {
            let lines = wrap(text, width);
            assert!(lines.iter().all(|line| line.chars().count() <= width), "{width}: {lines:?}");
            let squeeze = |text: &str| text.split_whitespace().collect::<String>();
            assert_eq!(squeeze(&lines.join("")), squeeze(text));
        }
        assert_eq!(wrap("", 80), [""]);
        assert_eq!(wrap("  A=b", 80), ["  A=b"]);
    }

    #[test]
    fn a_sentence_begins_large_and_ends_with_one_stop() {
        assert_eq!(sentence("nouveau has it"), "Nouveau has it.");
        assert_eq!(sentence("/dev/x is."), "/dev/x is.");
    }
}
