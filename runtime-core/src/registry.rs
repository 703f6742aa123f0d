//! Which backend serves which device type.
//!
//! Rules: nothing happens before the first question (loading the library opens nothing). Asking for a
//! type that is built in looks at no file; the first question about any other type looks at every
//! candidate, once. A backend that was taken stays for the life of the process.
//!
//! Code of others runs while a file is opened (constructors), and may call this library. So no lock is
//! held meanwhile; one thread at a time loads ([`Loading`]), others wait for it, and a call for another
//! backend out of a constructor is an error, since it would wait for itself.
//!
//! Where plugins come from (contract P1), in this order: an explicit [`Registry::load`];
//! `LLAISYS_BACKENDS`, a list of files, and then nothing else; `LLAISYS_BACKEND_PATH`, a list of
//! folders; the folder of the library itself. `LLAISYS_REQUIRE` names backends without which nothing
//! works (P5).

use crate::abi::LlaisysBackendAPI;
use crate::api::RuntimeApi;
use crate::candidate::{self, Candidate};
use crate::device_type::{self, ASSIGNED, DeviceType, LIMIT};
use crate::error::{Error, Result};
use crate::export::export;
use crate::fork::{self, ForkAware};
use crate::futex;
use crate::loader::{self, About};
use crate::lock::{ForkLock, Mutex, MutexGuard};
use crate::managed::Managed;
use crate::status::Status;
use crate::trust::{self, FileIdentity};
use std::ffi::{CStr, CString, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, Ordering};

/// A backend in use.
pub struct Backend {
    /// The device type it serves.
    pub device_type: DeviceType,
    /// Its name in lower case.
    pub name: CString,
    /// The backend, with everything that the core adds.
    pub api: &'static dyn RuntimeApi,
    /// The same as a C table.
    pub table: LlaisysBackendAPI,
}

impl Backend {
    fn install<B: RuntimeApi + 'static>(
        backend: B,
        device_type: DeviceType,
        name: &str,
    ) -> &'static Backend {
        let managed = Managed::install(backend, device_type);
        Box::leak(Box::new(Backend {
            device_type,
            name: candidate::text(name),
            api: managed,
            table: export(managed),
        }))
    }
}

/// A backend that is linked into the library.
pub struct Builtin {
    device_type: DeviceType,
    name: &'static str,
    vendor: &'static str,
    install: fn(&Builtin) -> &'static Backend,
}

impl Builtin {
    /// A built-in backend of this type, made by its `Default` when it is first asked for.
    pub const fn new<B: RuntimeApi + Default + 'static>(
        device_type: DeviceType,
        name: &'static str,
        vendor: &'static str,
    ) -> Builtin {
        Builtin {
            device_type,
            name,
            vendor,
            install: |this| Backend::install(B::default(), this.device_type, this.name),
        }
    }
}

/// The backends of this process. There is one, in `capi`.
pub struct Registry {
    builtins: &'static [Builtin],
    /// By device type; null until there is one.
    slots: [AtomicPtr<Backend>; LIMIT],
    /// `LLAISYS_REQUIRE` was found to be satisfied.
    satisfied: AtomicBool,
    /// The fork handlers know this registry.
    carried: AtomicBool,
    /// Never on the way of an operation, and never held while code of others runs.
    state: Mutex<State>,
    /// Counts the ends of loading; threads sleep here that want to load too.
    turns: AtomicU32,
}

struct State {
    /// Every candidate was looked at.
    discovered: bool,
    /// One that `LLAISYS_BACKENDS` names was refused.
    refused_by_name: bool,
    records: Vec<&'static Candidate>,
    loaded: Vec<(FileIdentity, DeviceType)>,
    /// The thread that is loading.
    loading: Option<ThreadMark>,
}

/// A thread of this process, also in a child that it forked: the address of a variable of its own.
type ThreadMark = usize;

fn this_thread() -> ThreadMark {
    thread_local! {
        static HERE: u8 = const { 0 };
    }
    HERE.with(|here| std::ptr::from_ref(here) as usize)
}

/// The right to load, of one thread at a time. It ends with this value.
struct Loading(&'static Registry);

impl Drop for Loading {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.loading = None;
        self.0.turns.fetch_add(1, Ordering::Relaxed);
        drop(state);
        futex::wake(&self.0.turns, i32::MAX);
    }
}

impl Registry {
    /// A registry that knows the backends that are built in.
    pub const fn new(builtins: &'static [Builtin]) -> Registry {
        Registry {
            builtins,
            slots: [const { AtomicPtr::new(ptr::null_mut()) }; LIMIT],
            satisfied: AtomicBool::new(false),
            carried: AtomicBool::new(false),
            state: Mutex::new(State {
                discovered: false,
                refused_by_name: false,
                records: Vec::new(),
                loaded: Vec::new(),
                loading: None,
            }),
            turns: AtomicU32::new(0),
        }
    }

    /// The backend of a device type. One load when it is there already.
    ///
    /// # Errors
    /// `BACKEND_UNAVAILABLE` with the reasons of all candidates, `BACKEND_REFUSED` when one that was
    /// asked for by name was refused, or what `LLAISYS_REQUIRE` misses.
    #[inline]
    pub fn backend(&'static self, device_type: DeviceType) -> Result<&'static Backend> {
        match self.get(device_type) {
            Some(backend) if self.satisfied.load(Ordering::Relaxed) => Ok(backend),
            _ => self.find(device_type),
        }
    }

    #[inline]
    fn get(&self, device_type: DeviceType) -> Option<&'static Backend> {
        let slot = self.slots.get(usize::try_from(device_type).ok()?)?;
        // SAFETY: a slot is null or holds a leaked backend, published with `Release`.
        unsafe { slot.load(Ordering::Acquire).as_ref() }
    }

    /// Takes the lock, which forks have to know of before anybody holds it.
    fn lock(&'static self) -> MutexGuard<'static, State> {
        if !self.carried.swap(true, Ordering::Relaxed) {
            fork::register(self);
        }
        self.state.lock()
    }

    /// Waits until no other thread loads.
    ///
    /// # Errors
    /// `NOT_PERMITTED` when this thread loads already: the caller is a constructor of the file.
    fn begin_loading(&'static self) -> Result<Loading> {
        let me = this_thread();
        loop {
            let mut state = self.lock();
            match state.loading {
                None => {
                    state.loading = Some(me);
                    return Ok(Loading(self));
                }
                Some(loader) if loader == me => {
                    let message = "a backend is being loaded by this very thread: a constructor of \
                                   a plugin cannot ask for backends";
                    return Err(Error::new(Status::NotPermitted, message));
                }
                Some(_) => {
                    // Read under the lock: an end of loading after this is a change of the word.
                    let seen = self.turns.load(Ordering::Relaxed);
                    drop(state);
                    futex::wait(&self.turns, seen, None);
                }
            }
        }
    }

    #[cold]
    fn find(&'static self, device_type: DeviceType) -> Result<&'static Backend> {
        if !self.satisfied.load(Ordering::Relaxed) {
            self.check_requirement()?;
            self.satisfied.store(true, Ordering::Relaxed);
        }
        self.find_unconditionally(device_type)
    }

    fn find_unconditionally(&'static self, device_type: DeviceType) -> Result<&'static Backend> {
        if let Some(backend) = self.get(device_type) {
            return Ok(backend);
        }
        if let Some(builtin) = self.builtins.iter().find(|b| b.device_type == device_type) {
            return Ok(self.install_builtin(builtin));
        }
        self.discover()?;
        self.get(device_type).ok_or_else(|| self.unavailable(device_type))
    }

    fn install_builtin(&'static self, builtin: &'static Builtin) -> &'static Backend {
        let mut state = self.lock();
        if let Some(backend) = self.get(builtin.device_type) {
            return backend;
        }
        let backend = (builtin.install)(builtin);
        self.publish(backend);
        state.keep(Candidate {
            status: Status::Success,
            device_type: builtin.device_type,
            name: candidate::text(builtin.name),
            path: CString::default(),
            version: candidate::text(env!("CARGO_PKG_VERSION")),
            vendor: candidate::text(builtin.vendor),
            reason: candidate::text("built in"),
        });
        backend
    }

    fn publish(&self, backend: &'static Backend) {
        if let Some(slot) = self.slots.get(backend.device_type as usize) {
            slot.store(ptr::from_ref(backend).cast_mut(), Ordering::Release);
        }
    }

    /// Looks at every candidate, once.
    ///
    /// # Errors
    /// `NOT_PERMITTED` out of a constructor, see [`Registry::begin_loading`].
    fn discover(&'static self) -> Result<()> {
        if self.lock().discovered {
            return Ok(());
        }
        let _loading = self.begin_loading()?;
        if self.lock().discovered {
            return Ok(());
        }
        let named = trust::variable("LLAISYS_BACKENDS").is_some();
        for (path, how) in candidate_files() {
            let refused = match path {
                // What it is when it is taken is in the record.
                Ok(path) => self.look_at(&path, how).is_err(),
                Err((path, error)) => {
                    self.lock().keep(Candidate::refused(&path, &error));
                    true
                }
            };
            self.lock().refused_by_name |= named && refused;
        }
        self.lock().discovered = true;
        Ok(())
    }

    /// Loads a backend from a file that the caller names.
    ///
    /// # Errors
    /// Why it was refused, with the path. A file that is loaded already is not an error.
    pub fn load(&'static self, path: &Path) -> Result<&'static Backend> {
        let loading = self.begin_loading();
        loading
            .and_then(|_loading| self.look_at(path, "loaded by an explicit call"))
            .map_err(|error| error.about(&path.to_string_lossy()))
    }

    /// Looks at one file. The caller has the right to load.
    fn look_at(&'static self, path: &Path, how: &'static str) -> Result<&'static Backend> {
        match self.try_file(path) {
            Ok(Looked::Known(backend)) => Ok(backend),
            Ok(Looked::New { backend, about, identity, path }) => {
                let mut state = self.lock();
                state.loaded.push((identity, backend.device_type));
                state.keep(Candidate {
                    status: Status::Success,
                    device_type: backend.device_type,
                    name: backend.name.clone(),
                    path: candidate::text(&path.to_string_lossy()),
                    version: candidate::text(&about.version),
                    vendor: candidate::text(&about.vendor),
                    reason: candidate::text(how),
                });
                Ok(backend)
            }
            Err((about, error)) => {
                let mut record = Candidate::refused(path, &error);
                if let Some(about) = about {
                    record.device_type = about.device_type.unwrap_or(-1);
                    record.name = candidate::text(&about.name);
                    record.version = candidate::text(&about.version);
                    record.vendor = candidate::text(&about.vendor);
                }
                self.lock().keep(record);
                Err(error)
            }
        }
    }

    fn try_file(&'static self, path: &Path) -> std::result::Result<Looked, (Option<About>, Error)> {
        let file = loader::check_plugin(path).map_err(|error| (None, error))?;
        let known = {
            let state = self.lock();
            state
                .loaded
                .iter()
                .find(|(known, _)| *known == file.identity)
                .map(|(_, number)| *number)
        };
        if let Some(backend) = known.and_then(|device_type| self.get(device_type)) {
            return Ok(Looked::Known(backend));
        }
        let opened = loader::open(&file).map_err(|error| (None, error))?;
        let about = opened.about;
        let device_type = match self.number_for(&about) {
            Ok(device_type) => device_type,
            Err(error) => return Err((Some(about), error)),
        };
        let backend = Backend::install(opened.plugin, device_type, &about.name);
        self.publish(backend);
        Ok(Looked::New { backend, about, identity: file.identity, path: file.path })
    }

    /// The device type a plugin gets, unless its name or its type is taken.
    fn number_for(&self, about: &About) -> Result<DeviceType> {
        let taken = (0..LIMIT as DeviceType).filter_map(|number| self.get(number));
        let builtin = self.builtins.iter().any(|builtin| {
            builtin.name == about.name || Some(builtin.device_type) == about.device_type
        });
        let clash = taken.into_iter().find(|backend| {
            backend.name.to_bytes() == about.name.as_bytes()
                || Some(backend.device_type) == about.device_type
        });
        if builtin || clash.is_some() {
            let by = match clash {
                Some(backend) => format!(
                    "`{}` (device type {})",
                    backend.name.to_string_lossy(),
                    backend.device_type
                ),
                None => "a backend that is built in".to_owned(),
            };
            let message = format!(
                "the name `{}` or its device type is taken by {by}; version {} is not used",
                about.name, about.version
            );
            return Err(Error::new(Status::BackendRefused, message));
        }
        if let Some(device_type) = about.device_type {
            return Ok(device_type);
        }
        ASSIGNED.into_iter().find(|number| self.get(*number).is_none()).ok_or_else(|| {
            let message = format!("all numbers for other kinds, {ASSIGNED:?}, are taken");
            Error::new(Status::BackendRefused, message)
        })
    }

    /// Every candidate that was looked at; looks at all of them first. Out of a constructor of one of
    /// them, those that were looked at so far.
    pub fn candidates(&'static self) -> Vec<&'static Candidate> {
        for builtin in self.builtins {
            self.install_builtin(builtin);
        }
        let _only_so_far = self.discover();
        self.lock().records.clone()
    }

    /// The name of a device type: its own, or that of the plugin that was given the number.
    pub fn name(&'static self, device_type: DeviceType) -> Option<&'static CStr> {
        self.get(device_type)
            .map(|backend| backend.name.as_c_str())
            .or_else(|| device_type::name(device_type))
    }

    /// `LLAISYS_REQUIRE`: every backend it names is there and has a device.
    fn check_requirement(&'static self) -> Result<()> {
        let Some(list) = trust::variable("LLAISYS_REQUIRE") else { return Ok(()) };
        let list = list.to_string_lossy().into_owned();
        for name in list.split([',', ':']).map(str::trim).filter(|name| !name.is_empty()) {
            self.check_required(name)?;
        }
        Ok(())
    }

    fn check_required(&'static self, name: &str) -> Result<()> {
        let all = self.candidates();
        let taken = all.iter().find(|record| {
            record.status == Status::Success && record.name.to_bytes() == name.as_bytes()
        });
        let Some(record) = taken else {
            let message = format!(
                "LLAISYS_REQUIRE names `{name}`, and there is no such backend; {}",
                reasons(&all)
            );
            return Err(Error::new(Status::BackendUnavailable, message));
        };
        match self.find_unconditionally(record.device_type)?.api.get_device_count() {
            Ok(0) => Err(Error::new(
                Status::BackendUnavailable,
                format!("LLAISYS_REQUIRE names `{name}`, and it has no device"),
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(Error::new(
                error.status(),
                format!("LLAISYS_REQUIRE names `{name}`: {}", error.message()),
            )),
        }
    }

    #[cold]
    fn unavailable(&'static self, device_type: DeviceType) -> Error {
        let (records, refused_by_name) = {
            let state = self.lock();
            (state.records.clone(), state.refused_by_name)
        };
        let status =
            if refused_by_name { Status::BackendRefused } else { Status::BackendUnavailable };
        let name = device_type::name(device_type)
            .map(|name| format!(" ({})", name.to_string_lossy()))
            .unwrap_or_default();
        let message =
            format!("no backend serves device type {device_type}{name}; {}", reasons(&records));
        Error::new(status, message)
    }
}

impl ForkAware for Registry {
    fn prepare(&self) {
        self.state.hold();
    }
    fn parent(&self) {
        // SAFETY: held by `prepare` on this thread.
        unsafe { self.state.release() };
    }
    fn child(&self) {
        self.parent();
        // A load that another thread was at is not going on here.
        let mut state = self.state.lock();
        if state.loading.is_some_and(|loader| loader != this_thread()) {
            state.loading = None;
        }
    }
}

impl State {
    /// Keeps a record for ever. The same file that is refused again for the same reason has one already,
    /// so that a program that tries it again and again does not grow.
    fn keep(&mut self, record: Candidate) {
        let again =
            record.status != Status::Success && self.records.iter().any(|one| **one == record);
        if !again {
            self.records.push(Box::leak(Box::new(record)));
        }
    }
}

/// What came of looking at a file that may be used.
enum Looked {
    /// It was loaded before, perhaps by another path.
    Known(&'static Backend),
    /// It was loaded now.
    New { backend: &'static Backend, about: About, identity: FileIdentity, path: PathBuf },
}

fn reasons(records: &[&'static Candidate]) -> String {
    let refused: Vec<String> = records
        .iter()
        .filter(|record| record.status != Status::Success)
        .map(|r| format!("{}: {}", r.path.to_string_lossy(), r.reason.to_string_lossy()))
        .collect();
    let found: Vec<String> = records
        .iter()
        .filter(|record| record.status == Status::Success)
        .map(|record| record.name.to_string_lossy().into_owned())
        .collect();
    let found = if found.is_empty() { "none".to_owned() } else { found.join(", ") };
    if refused.is_empty() {
        format!("found: {found}")
    } else {
        format!("found: {found}; refused: {}", refused.join("; "))
    }
}

/// A candidate's path and how it was found, or a path that cannot be used and why.
type Found = (std::result::Result<PathBuf, (PathBuf, Error)>, &'static str);

/// Every file to look at, in order.
fn candidate_files() -> Vec<Found> {
    if let Some(list) = trust::variable("LLAISYS_BACKENDS") {
        return split(list).map(|path| (Ok(path), "named by LLAISYS_BACKENDS")).collect();
    }
    let mut found = Vec::new();
    for folder in trust::variable("LLAISYS_BACKEND_PATH").into_iter().flat_map(split) {
        files_of(&folder, "found by LLAISYS_BACKEND_PATH", true, &mut found);
    }
    if let Some(folder) = own_folder() {
        files_of(&folder, "found beside the library", false, &mut found);
    }
    found
}

/// The elements of a list with colons; an empty one, which other programs read as the working
/// directory, is left out.
fn split(list: OsString) -> impl Iterator<Item = PathBuf> {
    let elements: Vec<PathBuf> = list
        .into_vec()
        .split(|&byte| byte == b':')
        .filter(|element| !element.is_empty())
        .map(|element| PathBuf::from(std::ffi::OsStr::from_bytes(element)))
        .collect();
    elements.into_iter()
}

/// The backends of a folder, by name. A folder that was asked for and cannot be read leaves a record.
fn files_of(folder: &Path, how: &'static str, asked_for: bool, found: &mut Vec<Found>) {
    let unusable = |message: String| {
        (Err((folder.to_owned(), Error::new(Status::BackendRefused, message))), how)
    };
    if !folder.is_absolute() {
        found
            .push(unusable("a relative folder is never searched; give an absolute one".to_owned()));
        return;
    }
    let entries = match std::fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) => {
            if asked_for {
                found.push(unusable(format!("the folder cannot be read: {error}")));
            }
            return;
        }
    };
    let mut paths: Vec<PathBuf> = entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| {
            let name = path.file_name().map(|name| name.as_bytes()).unwrap_or_default();
            name.starts_with(b"libllaisys_backend_") && name.ends_with(b".so")
        })
        .collect();
    paths.sort();
    found.extend(paths.into_iter().map(|path| (Ok(path), how)));
}

/// The folder of the file that this code was loaded from.
///
/// The kernel is asked, not `dladdr`: that repeats what was written in `dlopen` or in `argv[0]`, which
/// may be relative, and then means the working directory of today (P1).
fn own_folder() -> Option<PathBuf> {
    let here = own_folder as *const () as usize;
    let maps = std::fs::read("/proc/self/maps").ok()?;
    let file = maps.split(|&byte| byte == b'\n').find_map(|line| file_that_holds(line, here))?;
    // A deleted file has no folder, and a name that only looks like this is not there either.
    let path = Path::new(std::ffi::OsStr::from_bytes(file)).canonicalize().ok()?;
    path.parent().map(Path::to_owned)
}

/// The file of a line of `/proc/self/maps` that covers an address:
/// `start-end rwxp offset device inode    /path`.
fn file_that_holds(line: &[u8], address: usize) -> Option<&[u8]> {
    let path = line.iter().position(|&byte| byte == b'/')?;
    let (start, rest) = std::str::from_utf8(&line[..path]).ok()?.split_once('-')?;
    let end = rest.split(' ').next()?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    (number(start)?..number(end)?).contains(&address).then_some(&line[path..])
}
