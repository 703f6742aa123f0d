//! NVIDIA's management library, which tells whether a path between two devices is an NVLink. It comes with
//! the driver, but not in every container.
//!
//! Rule: it is optional. Without it, or where it does not know the devices, there is no answer.

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use once_cell::sync::OnceCell;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::ManuallyDrop;

/// `NVML_P2P_CAPS_INDEX_NVLINK`.
const NVLINK: c_uint = 2;

/// `NVML_P2P_STATUS_OK`.
const OK: c_uint = 0;

/// An `nvmlDevice_t`.
type Handle = *mut c_void;

/// The library, initialised; it stays so.
struct Nvml {
    handle_by_address: unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int,
    p2p_status: unsafe extern "C" fn(Handle, Handle, c_uint, *mut c_uint) -> c_int,
}

/// What came of the one attempt to open it.
static NVML: OnceCell<Option<Nvml>> = OnceCell::new();

/// Whether the devices at two PCI addresses reach each other over NVLink.
pub(crate) fn is_nvlink(first: &str, second: &str) -> Option<bool> {
    let nvml = NVML.get_or_init(Nvml::open).as_ref()?;
    let (first, second) = (nvml.device(first)?, nvml.device(second)?);
    let mut status: c_uint = 0;
    // SAFETY: both handles are the library's own, and `status` is writable.
    let code = unsafe { (nvml.p2p_status)(first, second, NVLINK, &mut status) };
    (code == 0).then_some(status == OK)
}

impl Nvml {
    fn open() -> Option<Nvml> {
        // SAFETY: the library's constructors do nothing that a driver's would not.
        let library = unsafe { Library::open(Some("libnvidia-ml.so.1"), RTLD_NOW | RTLD_LOCAL) };
        // Never closed: it keeps what it has of the driver.
        let library = ManuallyDrop::new(library.ok()?);
        // SAFETY: the three have had these signatures since they are there.
        unsafe {
            let init = library.get::<unsafe extern "C" fn() -> c_int>(name(c"nvmlInit_v2"));
            let nvml = Nvml {
                handle_by_address: *library.get(name(c"nvmlDeviceGetHandleByPciBusId_v2")).ok()?,
                p2p_status: *library.get(name(c"nvmlDeviceGetP2PStatus")).ok()?,
            };
            (init.ok()?() == 0).then_some(nvml)
        }
    }

    fn device(&self, pci_address: &str) -> Option<Handle> {
        let address = CString::new(pci_address).ok()?;
        let mut handle: Handle = std::ptr::null_mut();
        // SAFETY: the text ends with a NUL, and `handle` is writable.
        let code = unsafe { (self.handle_by_address)(address.as_ptr(), &mut handle) };
        (code == 0 && !handle.is_null()).then_some(handle)
    }
}

fn name(name: &'static CStr) -> &'static [u8] {
    name.to_bytes_with_nul()
}
