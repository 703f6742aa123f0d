//! What is wrong, and what to do about it.
//!
//! Rule: a code is a promise to programs and is never renamed; `docs/doctor.md` has them all, and a
//! test compares. Codes are in order, the worst first: what stands above is the likelier cause of what
//! stands below.

use serde::{Serialize, Serializer};

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Something that was found cannot be used: the exit code is 1.
    Error,
    /// It can be used, and may surprise.
    Warning,
}

/// Names each code once: the variant and how it is written.
macro_rules! codes {
    ($($variant:ident $name:literal),* $(,)?) => {
        /// What kind of fault it is, the worst first.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Code { $(
            #[doc = $name]
            $variant
        ),* }

        impl Code {
            /// Every code, in order.
            #[cfg(test)]
            pub const ALL: &'static [Code] = &[$(Code::$variant),*];

            /// How it is written.
            pub fn name(self) -> &'static str {
                match self { $(Code::$variant => $name),* }
            }
        }
    };
}

codes! {
    DriverHangs "DRIVER_HANGS",
    Nouveau "NOUVEAU",
    GpuHeldByVfio "GPU_HELD_BY_VFIO",
    DriverMissing "DRIVER_MISSING",
    ContainerWithoutGpu "CONTAINER_WITHOUT_GPU",
    NoComputeCapability "NO_COMPUTE_CAPABILITY",
    NoDeviceNodes "NO_DEVICE_NODES",
    NoUvmNode "NO_UVM_NODE",
    NodeNotPermitted "NODE_NOT_PERMITTED",
    NodeDeniedByCgroup "NODE_DENIED_BY_CGROUP",
    WslDriverShadowed "WSL_DRIVER_SHADOWED",
    WslWithoutGpu "WSL_WITHOUT_GPU",
    LibcudaMissing "LIBCUDA_MISSING",
    StubFirst "STUB_FIRST",
    StubOnly "STUB_ONLY",
    CompatOlderThanDriver "COMPAT_OLDER_THAN_DRIVER",
    CompatRefused "COMPAT_REFUSED",
    DriverMismatch "DRIVER_MISMATCH",
    DriverTooOld "DRIVER_TOO_OLD",
    DriverFileUnusable "DRIVER_FILE_UNUSABLE",
    HiddenDevices "HIDDEN_DEVICES",
    SystemNotReady "SYSTEM_NOT_READY",
    MpsUnreachable "MPS_UNREACHABLE",
    NoDevice "NO_DEVICE",
    InitFailed "INIT_FAILED",
    BackendRefused "BACKEND_REFUSED",
    BackendMissing "BACKEND_MISSING",
    RequiredMissing "REQUIRED_MISSING",
    BackendsNotAsked "BACKENDS_NOT_ASKED",
    ToolkitNeedsNewerDriver "TOOLKIT_NEEDS_NEWER_DRIVER",
    DeviceDroppedByToolkit "DEVICE_DROPPED_BY_TOOLKIT",
    PreloadedDriver "PRELOADED_DRIVER",
    ToolkitNewerThanDriver "TOOLKIT_NEWER_THAN_DRIVER",
    DeviceNewerThanToolkit "DEVICE_NEWER_THAN_TOOLKIT",
    DriverNotOnPath "DRIVER_NOT_ON_PATH",
    SeveralDrivers "SEVERAL_DRIVERS",
    WheelShadowed "WHEEL_SHADOWED",
    PathMissing "PATH_MISSING",
    PathRelative "PATH_RELATIVE",
    UnknownVariable "UNKNOWN_VARIABLE",
    LaunchBlocking "LAUNCH_BLOCKING",
    LowMemoryLimit "LOW_MEMORY_LIMIT",
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, Serialize)]
pub struct Fault {
    pub code: Code,
    pub severity: Severity,
    /// What is wrong: what was found.
    pub what: String,
    /// What to do.
    pub advice: String,
    /// The one command that does it, where there is one.
    pub command: Option<String>,
}

/// All that is wrong.
#[derive(Default)]
pub struct Faults(Vec<Fault>);

impl Faults {
    /// Something that was found cannot be used.
    pub fn error(&mut self, code: Code, what: impl Into<String>, advice: impl Into<String>) {
        self.add(code, Severity::Error, what.into(), advice.into());
    }

    /// Something may surprise.
    pub fn warning(&mut self, code: Code, what: impl Into<String>, advice: impl Into<String>) {
        self.add(code, Severity::Warning, what.into(), advice.into());
    }

    fn add(&mut self, code: Code, severity: Severity, what: String, advice: String) {
        self.0.push(Fault { code, severity, what, advice, command: None });
    }

    /// The command for the fault that was added last.
    pub fn by(&mut self, command: impl Into<String>) {
        if let Some(fault) = self.0.last_mut() {
            fault.command = Some(command.into());
        }
    }

    /// Whether one of these is among them.
    pub fn has(&self, codes: &[Code]) -> bool {
        self.0.iter().any(|fault| codes.contains(&fault.code))
    }

    /// Whether an error is among them that says why a driver has no device: any above
    /// [`Code::BackendRefused`].
    pub fn explain_no_device(&self) -> bool {
        self.0
            .iter()
            .any(|fault| fault.severity == Severity::Error && fault.code < Code::BackendRefused)
    }

    /// The worst first.
    pub fn into_sorted(mut self) -> Vec<Fault> {
        self.0.sort_by_key(|fault| (fault.severity, fault.code));
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_come_before_warnings_and_causes_before_what_follows_from_them() {
        let mut faults = Faults::default();
        faults.warning(Code::LaunchBlocking, "a", "b");
        faults.error(Code::NoDevice, "a", "b");
        faults.error(Code::Nouveau, "a", "b");
        let codes: Vec<Code> = faults.into_sorted().iter().map(|fault| fault.code).collect();
        assert_eq!(codes, [Code::Nouveau, Code::NoDevice, Code::LaunchBlocking]);
    }

    #[test]
    fn the_page_has_every_code_and_no_other() {
        let page = include_str!("../../../docs/doctor.md");
        let named: Vec<&str> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `"))
            .filter_map(|line| line.split_once('`'))
            .map(|(name, _)| name)
            .filter(|name| {
                !name.contains('/') && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
            })
            .collect();
        let codes: Vec<&str> = Code::ALL.iter().map(|code| code.name()).collect();
        assert_eq!(named, codes, "docs/doctor.md lists the codes in this order");
    }
}
