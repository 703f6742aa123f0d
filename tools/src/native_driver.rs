//! The NVIDIA driver, called as a program calls it that has no runtime of ours.
//!
//! Rule: it is the library that the plugin has loaded already (`RTLD_NOLOAD`); another is never
//! loaded, for two drivers in one process would measure something else.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use llaisys_runtime::core::{Error, Result, Status};
use std::ffi::{OsString, c_int, c_uchar, c_uint, c_void};
use std::path::Path;

/// dlopen's flag for a library that must be there already; the same on every Linux but MIPS.
const RTLD_NOLOAD: c_int = 4;
/// How the plugin is told where the driver is: paths with `:` between them.
const VARIABLE: &str = "LLAISYS_CUDA_DRIVER";
/// What the driver is called where it is not told.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

type Answer = c_int;
type Address = u64;
type Native = *mut c_void;

/// The entry points that are measured. Each answers 0 when all is well.
pub struct NativeDriver {
    /// Copies from host memory.
    pub copy_in: unsafe extern "C" fn(Address, *const c_void, usize, Native) -> Answer,
    /// Copies to host memory.
    pub copy_out: unsafe extern "C" fn(*mut c_void, Address, usize, Native) -> Answer,
    /// Copies from host memory, and waits.
    pub copy_in_and_wait: unsafe extern "C" fn(Address, *const c_void, usize) -> Answer,
    /// Copies to host memory, and waits.
    pub copy_out_and_wait: unsafe extern "C" fn(*mut c_void, Address, usize) -> Answer,
    /// Copies within the device.
    pub copy: unsafe extern "C" fn(Address, Address, usize, Native) -> Answer,
    /// Fills with a byte.
    pub fill: unsafe extern "C" fn(Address, c_uchar, usize, Native) -> Answer,
    /// Waits for a stream.
    pub settle: unsafe extern "C" fn(Native) -> Answer,
    /// Asks for an event.
    pub query: unsafe extern "C" fn(Native) -> Answer,
    create: unsafe extern "C" fn(*mut Native, c_uint) -> Answer,
    record: unsafe extern "C" fn(Native, Native) -> Answer,
    wait: unsafe extern "C" fn(Native) -> Answer,
    destroy: unsafe extern "C" fn(Native) -> Answer,
    version: i32,
}

impl NativeDriver {
    /// Finds the driver that is loaded.
    ///
    /// # Errors
    /// When none is, or when it lacks an entry point.
    pub fn find() -> Result<NativeDriver> {
        let library = loaded()?;
        // SAFETY: these are the driver's own names, and it has had these signatures since CUDA 4.
        let driver = unsafe {
            let mut version = 0;
            let ask: unsafe extern "C" fn(*mut c_int) -> Answer =
                symbol(&library, "cuDriverGetVersion")?;
            check("cuDriverGetVersion", ask(&mut version))?;
            NativeDriver {
                copy_in: symbol(&library, "cuMemcpyHtoDAsync_v2")?,
                copy_out: symbol(&library, "cuMemcpyDtoHAsync_v2")?,
                copy_in_and_wait: symbol(&library, "cuMemcpyHtoD_v2")?,
                copy_out_and_wait: symbol(&library, "cuMemcpyDtoH_v2")?,
                copy: symbol(&library, "cuMemcpyDtoDAsync_v2")?,
                fill: symbol(&library, "cuMemsetD8Async")?,
                query: symbol(&library, "cuEventQuery")?,
                create: symbol(&library, "cuEventCreate")?,
                record: symbol(&library, "cuEventRecord")?,
                settle: symbol(&library, "cuStreamSynchronize")?,
                wait: symbol(&library, "cuEventSynchronize")?,
                destroy: symbol(&library, "cuEventDestroy_v2")?,
                version,
            }
        };
        // The plugin keeps the driver open for the life of the process; so does this.
        std::mem::forget(library);
        Ok(driver)
    }

    /// How a peer is called that is one of the entry points: `cuEventQuery, CUDA driver 13.0`.
    pub fn peer(&self, entry: &str) -> String {
        format!("{entry}, CUDA driver {}.{}", self.version / 1000, self.version % 1000 / 10)
    }

    /// Waits for a stream, whatever else is known of it.
    ///
    /// # Errors
    /// The driver's code.
    ///
    /// # Safety
    /// - `stream` is a live `CUstream`.
    pub unsafe fn synchronize(&self, stream: Native) -> Result<()> {
        // SAFETY: by the contract above.
        check("cuStreamSynchronize", unsafe { (self.settle)(stream) })
    }

    /// An event that was recorded on a stream and reached.
    ///
    /// # Errors
    /// The driver's code.
    ///
    /// # Safety
    /// - `stream` is a live `CUstream` of the thread's current context.
    pub unsafe fn reached_event(&self, stream: Native) -> Result<NativeEvent<'_>> {
        /// `CU_EVENT_DISABLE_TIMING`: the cheapest kind, which ours is too.
        const NO_TIMING: c_uint = 2;
        let mut event = NativeEvent { driver: self, native: std::ptr::null_mut() };
        // SAFETY: a context is current by the contract above; the event is live from here on.
        unsafe {
            check("cuEventCreate", (self.create)(&mut event.native, NO_TIMING))?;
            check("cuEventRecord", (self.record)(event.native, stream))?;
            check("cuEventSynchronize", (self.wait)(event.native))?;
        }
        Ok(event)
    }
}

/// An event of the driver's own.
pub struct NativeEvent<'a> {
    driver: &'a NativeDriver,
    /// The `CUevent`.
    pub native: Native,
}

impl Drop for NativeEvent<'_> {
    fn drop(&mut self) {
        if !self.native.is_null() {
            // SAFETY: made by `reached_event`, destroyed once.
            unsafe { (self.driver.destroy)(self.native) };
        }
    }
}

/// An answer of the driver's as a result.
///
/// # Errors
/// When it is not 0.
pub fn check(entry: &str, answer: i32) -> Result<()> {
    if answer == 0 {
        return Ok(());
    }
    Err(Error::new(Status::DriverError, format!("{entry}, called directly, answered {answer}")))
}

/// The driver that the plugin has loaded.
///
/// # Errors
/// When it has loaded none.
pub fn loaded() -> Result<Library> {
    let told = std::env::var_os(VARIABLE).filter(|paths| !paths.is_empty());
    let places: Vec<OsString> = match &told {
        Some(paths) => std::env::split_paths(paths)
            .filter(|path| path.is_absolute())
            .map(|path| path.into_os_string())
            .collect(),
        None => NAMES.iter().map(OsString::from).collect(),
    };
    for place in &places {
        // SAFETY: nothing is loaded, so no constructor runs.
        let found = unsafe { Library::open(Some(place), RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD) };
        if let Ok(library) = found {
            return Ok(library);
        }
    }
    let places: Vec<_> =
        places.iter().map(|place| Path::new(place).display().to_string()).collect();
    let places = places.join(", ");
    Err(Error::new(
        Status::DriverUnavailable,
        format!("the driver is not loaded under any of these names: {places}"),
    ))
}

/// An entry point of the driver's.
///
/// # Errors
/// When it has none of this name.
///
/// # Safety
/// - The symbol of this name is a function of the type `F`.
pub unsafe fn symbol<F: Copy>(library: &Library, name: &str) -> Result<F> {
    // SAFETY: by the contract above.
    let found = unsafe { library.get::<F>(name.as_bytes()) };
    found.map(|function| *function).map_err(|error| {
        Error::new(Status::DriverUnavailable, format!("the driver has no {name}: {error}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_of_the_drivers_is_said_with_the_entry_point() {
        assert!(check("cuEventQuery", 0).is_ok());
        let error = check("cuEventQuery", 400).expect_err("400 is no success");
        assert!(error.to_string().contains("cuEventQuery, called directly, answered 400"));
    }
}
