//! The driver under question: calls by name, any arguments.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

type AnyCall =
    unsafe extern "C" fn(usize, usize, usize, usize, usize, usize, usize, usize, usize) -> i32;

/// An opened driver library.
pub struct Driver {
    handle: usize,
    doors: RefCell<HashMap<&'static str, usize>>,
}

/// A word that the driver may write.
#[derive(Default)]
pub struct Word(pub Box<u64>);

impl Word {
    pub fn at(&mut self) -> usize {
        std::ptr::from_mut::<u64>(&mut self.0) as usize
    }
    pub fn get(&self) -> usize {
        // SAFETY: the box is live; the read is volatile since the driver writes it through an address.
        unsafe { std::ptr::read_volatile(std::ptr::from_ref::<u64>(&self.0)) as usize }
    }
    pub fn int(&self) -> i32 {
        self.get() as i32
    }
}

impl Driver {
    pub fn open(path: &str) -> Driver {
        let path = CString::new(path).expect("a path holds no zero");
        // SAFETY: opening a library runs its constructors, which is what is asked for.
        let handle =
            unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) } as usize;
        if handle == 0 {
            println!("the library cannot be opened");
            leave();
        }
        Driver { handle, doors: RefCell::default() }
    }

    /// The same library for another thread.
    pub fn again(&self) -> Driver {
        Driver { handle: self.handle, doors: RefCell::default() }
    }

    pub fn address(&self, name: &'static str) -> usize {
        *self.doors.borrow_mut().entry(name).or_insert_with(|| {
            let c = CString::new(name).expect("a name holds no zero");
            // SAFETY: the handle is of an open library.
            unsafe { libc::dlsym(self.handle as *mut c_void, c.as_ptr()) as usize }
        })
    }

    /// Calls a function; -1000 when the library lacks it.
    pub fn call(&self, name: &'static str, arguments: &[usize]) -> i32 {
        let door = self.address(name);
        if door == 0 {
            return -1000;
        }
        let mut all = [0usize; 9];
        all[..arguments.len()].copy_from_slice(arguments);
        // SAFETY: every driver function takes integers and pointers only; surplus arguments are not
        // read under the System V calling convention.
        let door: AnyCall = unsafe { std::mem::transmute(door) };
        // SAFETY: the questions pass addresses that are valid for what is asked, or wrong on purpose.
        unsafe { door(all[0], all[1], all[2], all[3], all[4], all[5], all[6], all[7], all[8]) }
    }

    /// Calls and prints.
    pub fn ask(&self, what: &str, name: &'static str, arguments: &[usize]) -> i32 {
        let code = self.call(name, arguments);
        println!("{name} {what}: {code}");
        code
    }

    /// Calls until the answer is not NOT_READY any more, for a while, and prints.
    pub fn settle(&self, what: &str, name: &'static str, arguments: &[usize]) {
        let start = std::time::Instant::now();
        while self.call(name, arguments) == 600 && start.elapsed() < Duration::from_millis(150) {
            std::thread::yield_now();
        }
        self.ask(what, name, arguments);
    }

    /// Calls something that must work for the questions to make sense.
    pub fn must(&self, name: &'static str, arguments: &[usize]) {
        let code = self.call(name, arguments);
        if code != 0 {
            println!("{name} must work: {code}");
            leave();
        }
    }

    /// Launches a kernel of one thread without arguments.
    pub fn launch(&self, function: usize, stream: usize) {
        type Launch = unsafe extern "C" fn(
            usize,
            u32,
            u32,
            u32,
            u32,
            u32,
            u32,
            u32,
            usize,
            usize,
            usize,
        ) -> i32;
        let door = self.address("cuLaunchKernel");
        // SAFETY: the address is of cuLaunchKernel, whose signature this is.
        let door: Launch = unsafe { std::mem::transmute(door) };
        // SAFETY: the function and the stream are live.
        let code = unsafe { door(function, 1, 1, 1, 1, 1, 1, 0, stream, 0, 0) };
        assert!(code == 0, "the kernel cannot be launched: {code}");
    }

    /// Calls and gives the word that was written.
    pub fn make(&self, name: &'static str, rest: &[usize]) -> usize {
        let mut word = Word::default();
        let mut all = vec![word.at()];
        all.extend_from_slice(rest);
        self.must(name, &all);
        word.get()
    }

    /// Initialises, retains the primary context of device 0 and makes it current.
    pub fn primary(&self) -> usize {
        self.must("cuInit", &[0]);
        let context = self.make("cuDevicePrimaryCtxRetain", &[0]);
        self.must("cuCtxSetCurrent", &[context]);
        context
    }

    /// Does the call in a thread (with this context) and says whether it returns within a third of a second.
    pub fn blocks(
        &self,
        context: usize,
        what: &'static str,
        name: &'static str,
        arguments: &[usize],
    ) -> Late {
        let (driver, arguments) = (self.again(), arguments.to_vec());
        let (done, finished) = channel();
        std::thread::spawn(move || {
            driver.call("cuCtxSetCurrent", &[context]);
            done.send(driver.call(name, &arguments)).ok();
        });
        match finished.recv_timeout(Duration::from_millis(350)) {
            Ok(code) => {
                println!("{name} {what}: returns {code}");
                Late(None)
            }
            Err(_) => {
                println!("{name} {what}: blocks");
                Late(Some((what, name, finished)))
            }
        }
    }
}

/// A call that may still be in the driver.
pub struct Late(Option<(&'static str, &'static str, Receiver<i32>)>);

impl Late {
    /// Whether it has not returned yet.
    #[allow(dead_code, reason = "asked by stories, not by `ask`")]
    pub fn is_late(&self) -> bool {
        self.0.is_some()
    }

    /// What it returned, once it was free to.
    #[allow(dead_code, reason = "asked by stories, not by `ask`")]
    pub fn code(self) -> Option<i32> {
        self.0.and_then(|(.., finished)| finished.recv_timeout(Duration::from_secs(5)).ok())
    }

    /// Prints how it ended, once it was free to.
    pub fn end(self) {
        if let Some((what, name, finished)) = self.0 {
            match finished.recv_timeout(Duration::from_secs(5)) {
                Ok(code) => println!("{name} {what}: ended {code}"),
                Err(_) => println!("{name} {what}: never ends"),
            }
        }
    }
}

/// A host function that holds a stream until it is opened.
pub struct Gate {
    open: Sender<()>,
    reached: Receiver<()>,
}

impl Gate {
    /// The function to launch and its argument.
    pub fn new() -> (Gate, usize, usize) {
        extern "C" fn hold(data: *mut c_void) {
            // SAFETY: the pointer is the box that was leaked in `new`, given to one launch only.
            let (reached, closed) =
                *unsafe { Box::from_raw(data.cast::<(Sender<()>, Receiver<()>)>()) };
            reached.send(()).ok();
            closed.recv().ok();
        }
        let (open, closed) = channel::<()>();
        let (at, reached) = channel::<()>();
        let data = Box::into_raw(Box::new((at, closed))) as usize;
        (Gate { open, reached }, hold as *const () as usize, data)
    }

    /// Holds a stream now.
    pub fn on(driver: &Driver, stream: usize) -> Gate {
        let (gate, function, data) = Gate::new();
        driver.must("cuLaunchHostFunc", &[stream, function, data]);
        gate
    }

    /// Whether the stream came to the gate.
    pub fn reached(&self) -> bool {
        self.reached.recv_timeout(Duration::from_millis(500)).is_ok()
    }

    pub fn open(self) {
        self.open.send(()).ok();
    }
}

/// Ends the process at once, with what was printed.
pub fn leave() -> ! {
    use std::io::Write;
    std::io::stdout().flush().ok();
    // SAFETY: _exit has no preconditions.
    unsafe { libc::_exit(0) }
}

/// Memory of the host, page-aligned, that is never given back.
pub fn pageable(bytes: usize) -> usize {
    let at = Box::leak(vec![7u8; bytes + 8192].into_boxed_slice()).as_ptr() as usize;
    at.next_multiple_of(4096)
}
