//! Data of a case: the same bytes for the same seed, different ones for each case.

use crate::address::Address;

/// SplitMix64: small, and good enough to make bytes that do not repeat.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// A generator.
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `limit`, which is not 0.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// Bytes. Many are a repetition of fewer, whose number is a prime, so that a shift by a power of two
    /// is still seen.
    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        const PERIOD: usize = 262_147;
        let fresh = length.min(PERIOD);
        let mut bytes = Vec::with_capacity(length + 8);
        while bytes.len() < fresh {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(fresh);
        while bytes.len() < length {
            let more = (length - bytes.len()).min(PERIOD);
            bytes.extend_from_within(..more);
        }
        bytes
    }
}

/// The seed of a case: that of the run, with the case's name stirred in.
pub fn mix(seed: u64, name: &str) -> u64 {
    let stirred = name.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    Rng::new(stirred).next()
}

/// Where two rows of bytes first differ, in words; `None` when they are equal.
pub fn difference(found: &[u8], expected: &[u8]) -> Option<String> {
    if found.len() != expected.len() {
        return Some(format!("expected {} bytes, found {}", expected.len(), found.len()));
    }
    if found == expected {
        return None;
    }
    let at = found.iter().zip(expected).position(|(found, expected)| found != expected)?;
    let wrong = found.iter().zip(expected).filter(|(found, expected)| found != expected).count();
    Some(format!(
        "{wrong} of {} bytes differ, the first at {at}: expected {:#04x}, found {:#04x}",
        found.len(),
        expected[at],
        found[at]
    ))
}

/// Whether the kernel lets this process read a byte there, without the risk of trying.
pub fn is_readable(address: Address) -> bool {
    let mut byte = 0u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: address.pointer(), iov_len: 1 };
    // SAFETY: the local range is ours; the remote one is only tried by the kernel.
    unsafe { libc::process_vm_readv(libc::getpid(), &local, 1, &remote, 1, 0) == 1 }
}

/// The memory of this process that is in use, in bytes; 0 where that cannot be told.
pub fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|word| word.parse::<usize>().ok());
    pages.unwrap_or(0) * 4096
}
