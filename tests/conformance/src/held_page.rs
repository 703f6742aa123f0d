//! A page at which whoever reads or writes it stops until the test lets him go on: so a copy that the calling
//! thread itself does can be looked at half-way, where no gate in a stream reaches.
//!
//! Rule: one at a time, and only in a program of its own, because the process's handler of SIGSEGV is
//! replaced. A fault anywhere else stays what it is.

use crate::address::Address;
use crate::outcome::{Checked, Stop};
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// The page; 0 when there is none.
static PAGE: AtomicUsize = AtomicUsize::new(0);
/// The bytes of a page.
static BYTES: AtomicUsize = AtomicUsize::new(0);
/// Somebody stands at it.
static REACHED: AtomicBool = AtomicBool::new(false);
/// Nobody has to stand any longer.
static OPEN: AtomicBool = AtomicBool::new(false);

/// How long to wait for somebody to come.
const LIMIT: Duration = Duration::from_secs(30);

/// Three pages, of which the one in the middle is shut. They stay until the process ends.
pub struct HeldPage {
    start: Address,
    size: usize,
}

/// The handler of SIGSEGV; keeps to what a handler may do, and leaves `errno` as it is.
unsafe extern "C" fn stand(_: c_int, information: *mut libc::siginfo_t, _: *mut c_void) {
    let (page, bytes) = (PAGE.load(Ordering::SeqCst), BYTES.load(Ordering::SeqCst));
    // SAFETY: the kernel filled the information in; `errno` and the default action are this process's own.
    unsafe {
        let address = (*information).si_addr() as usize;
        if !(page..page + bytes).contains(&address) {
            // The access is made again, and ends the process.
            libc::signal(libc::SIGSEGV, libc::SIG_DFL);
            return;
        }
        let errno = *libc::__errno_location();
        REACHED.store(true, Ordering::SeqCst);
        let nap = libc::timespec { tv_sec: 0, tv_nsec: 1_000_000 };
        while !OPEN.load(Ordering::SeqCst) {
            libc::nanosleep(&nap, null_mut());
        }
        let page = Address(page).pointer();
        libc::mprotect(page, bytes, libc::PROT_READ | libc::PROT_WRITE);
        *libc::__errno_location() = errno;
    }
}

impl HeldPage {
    /// The pages with this content, one byte repeated.
    pub fn filled(byte: u8) -> Checked<HeldPage> {
        // SAFETY: asks for a number; makes memory of our own; the handler is a function of this program.
        let (start, bytes) = unsafe {
            let bytes = libc::sysconf(libc::_SC_PAGESIZE) as usize;
            let rights = libc::PROT_READ | libc::PROT_WRITE;
            let kind = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
            let start = libc::mmap(null_mut(), 3 * bytes, rights, kind, -1, 0);
            if start == libc::MAP_FAILED {
                return Err(Stop::skip("no three pages are to be had"));
            }
            start.cast::<u8>().write_bytes(byte, 3 * bytes);
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = stand as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO;
            libc::sigaction(libc::SIGSEGV, &action, null_mut());
            (Address::from_pointer(start), bytes)
        };
        REACHED.store(false, Ordering::SeqCst);
        OPEN.store(false, Ordering::SeqCst);
        BYTES.store(bytes, Ordering::SeqCst);
        PAGE.store(start.plus(bytes).0, Ordering::SeqCst);
        // SAFETY: the page in the middle of the three.
        unsafe { libc::mprotect(start.plus(bytes).pointer(), bytes, libc::PROT_NONE) };
        Ok(HeldPage { start, size: 3 * bytes })
    }

    /// Where the three pages are.
    pub fn address(&self) -> Address {
        self.start
    }

    /// How many bytes the three pages have.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Waits until somebody stands at the page.
    pub fn await_reached(&self) -> Checked {
        let started = Instant::now();
        while !REACHED.load(Ordering::SeqCst) {
            ensure!(started.elapsed() < LIMIT, "nobody came to the held page in {LIMIT:?}");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Lets everybody go on.
    pub fn open(&self) {
        OPEN.store(true, Ordering::SeqCst);
    }

    /// The content, once it is open and nobody stands there.
    pub fn content(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.size];
        // SAFETY: the pages are ours and stay.
        unsafe { libc::memcpy(bytes.as_mut_ptr().cast(), self.start.pointer(), self.size) };
        bytes
    }
}

impl Drop for HeldPage {
    fn drop(&mut self) {
        self.open();
    }
}
