//! What a driver's library answers: asked in a process of its own, which is this command with
//! `--ask-driver`.
//!
//! Rule: the question is put by a child with a time limit (`child`); this process opens no driver. No
//! context is made.

use super::child;
use super::version::Version;
use crate::print;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use serde::{Deserialize, Serialize};
use std::ffi::{CStr, OsStr, c_char, c_int, c_uint, c_void};
use std::io::ErrorKind;
use std::mem::ManuallyDrop;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

/// The answer of a driver, or how far it came.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Answer {
    /// What was opened, as it was named.
    pub name: String,
    /// The file that the dynamic linker took.
    pub file: Option<String>,
    /// Why it could not be opened.
    pub error: Option<String>,
    /// What `cuDriverGetVersion` said: 1000 × major + 10 × minor.
    pub version: Option<i32>,
    /// What `cuInit` answered (0 is success), or `cuDriverGetVersion` when that failed.
    pub code: Option<i32>,
    /// The name of that code.
    pub code_name: Option<String>,
    /// How many devices there are.
    pub devices: Option<i32>,
    /// Nodes that the control group does not let this process open.
    #[serde(default)]
    pub denied_nodes: Vec<String>,
    /// Nothing came back within so many seconds.
    pub no_answer_within: Option<u64>,
}

impl Answer {
    /// Whether it is `CUDA_ERROR_STUB_LIBRARY`: a toolkit's library to link against.
    pub fn is_of_a_stub(&self) -> bool {
        self.code == Some(34)
    }

    /// The release in the name of the file that was opened.
    pub fn release(&self) -> Option<Version> {
        Version::of_file(Path::new(self.file.as_ref()?).file_name()?.to_str()?)
    }

    /// The CUDA that the driver is for.
    pub fn cuda(&self) -> Option<(u32, u32)> {
        let version = u32::try_from(self.version?).ok()?;
        Some((version / 1000, version % 1000 / 10))
    }
}

/// Asks a library; `None` when this command cannot run itself.
pub fn ask(name: &OsStr, nodes: &[String], limit: Duration) -> Option<Answer> {
    let mut arguments = vec!["doctor".into(), "--ask-driver".into(), name.to_owned()];
    for node in nodes {
        arguments.extend(["--node".into(), node.into()]);
    }
    let unanswered = || Answer { name: name.to_string_lossy().into_owned(), ..Answer::default() };
    match child::run(&arguments, limit) {
        child::Ended::Said(text) => serde_json::from_str(&text).ok(),
        child::Ended::TimedOut => {
            Some(Answer { no_answer_within: Some(limit.as_secs()), ..unanswered() })
        }
        child::Ended::Failed(reason) => Some(Answer { error: Some(reason), ..unanswered() }),
    }
}

/// The whole life of the child: opens, asks, prints one line of JSON.
pub fn answer(name: &OsStr, nodes: &[String]) -> ExitCode {
    let mut answer = Answer { name: name.to_string_lossy().into_owned(), ..Answer::default() };
    answer.denied_nodes = nodes.iter().filter(|node| is_denied(node)).cloned().collect();
    put(name, &mut answer);
    print::json_line(&answer);
    ExitCode::SUCCESS
}

/// Whether a node may not be opened although its permissions allow it.
fn is_denied(node: &str) -> bool {
    let opened = std::fs::OpenOptions::new().read(true).write(true).open(node);
    // EPERM comes from a control group, EACCES from permissions; Rust calls both the same.
    opened.is_err_and(|error| {
        error.kind() == ErrorKind::PermissionDenied && error.raw_os_error() == Some(libc::EPERM)
    })
}

fn put(name: &OsStr, answer: &mut Answer) {
    // SAFETY: opening runs the library's constructors; this process exists for that.
    let library = match unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) } {
        Ok(library) => ManuallyDrop::new(library),
        Err(libloading::Error::DlOpen { desc }) => {
            answer.error = Some(format!("{desc:?}").trim_matches('"').to_owned());
            return;
        }
        Err(error) => {
            answer.error = Some(error.to_string());
            return;
        }
    };
    // SAFETY: the three have had these signatures in every version of the driver.
    let entries = unsafe {
        (
            library.get::<unsafe extern "C" fn(c_uint) -> c_int>(b"cuInit\0"),
            library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDriverGetVersion\0"),
            library.get::<unsafe extern "C" fn(*mut c_int) -> c_int>(b"cuDeviceGetCount\0"),
        )
    };
    let (Ok(init), Ok(version), Ok(count)) = entries else {
        answer.error = Some("not a CUDA driver: it has no cuInit or no cuDeviceGetCount".into());
        return;
    };
    answer.file = file_of(*init as *const c_void);
    let mut number: c_int = 0;
    // SAFETY: `number` is writable; the entry point needs no cuInit before it.
    let mut code = unsafe { version(&mut number) };
    if code == 0 {
        answer.version = Some(number);
        // SAFETY: cuInit may be called once the library is open; it makes no context.
        code = unsafe { init(0) };
    }
    if code == 0 {
        let mut devices: c_int = 0;
        // SAFETY: `devices` is writable.
        code = unsafe { count(&mut devices) };
        answer.devices = (code == 0).then_some(devices);
    }
    answer.code = Some(code);
    answer.code_name = code_name(&library, code);
}

/// The driver's own name for a code.
fn code_name(library: &Library, code: c_int) -> Option<String> {
    type Ask = unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int;
    // SAFETY: the entry point has had this signature in every version.
    let ask = unsafe { library.get::<Ask>(b"cuGetErrorName\0") }.ok()?;
    let mut name: *const c_char = std::ptr::null();
    // SAFETY: `name` is writable.
    if unsafe { ask(code, &mut name) } != 0 || name.is_null() {
        return None;
    }
    // SAFETY: on success the driver hands out a constant, NUL-terminated text.
    Some(unsafe { CStr::from_ptr(name) }.to_string_lossy().into_owned())
}

/// The file that has an address, links resolved.
fn file_of(address: *const c_void) -> Option<String> {
    // SAFETY: an all-zero Dl_info is a valid one: four null pointers.
    let mut info: libc::Dl_info = unsafe { std::mem::zeroed() };
    // SAFETY: `info` is writable; the address is of code in a library that is open.
    if unsafe { libc::dladdr(address, &mut info) } == 0 || info.dli_fname.is_null() {
        return None;
    }
    // SAFETY: dladdr succeeded, so the name is a NUL-terminated text of the dynamic linker's, which
    // keeps it while the library is open, and it is never closed.
    let name = unsafe { CStr::from_ptr(info.dli_fname) }.to_string_lossy().into_owned();
    let real = Path::new(&name).canonicalize().ok();
    Some(real.map_or(name, |path| path.to_string_lossy().into_owned()))
}
