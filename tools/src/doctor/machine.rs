//! What kind of machine it is: a container, Windows' Subsystem for Linux, one with limits.
//!
//! Rule: it is told by files alone, so that a folder can stand for any machine.

use super::root::Root;
use serde::Serialize;

/// The machine.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    pub kernel: Option<String>,
    /// `docker`, `podman`, `kubernetes`, `container`, when it is one.
    pub container: Option<&'static str>,
    /// Windows' Subsystem for Linux.
    pub wsl: bool,
    /// What its control group allows, in bytes.
    pub memory_limit: Option<u64>,
    /// How many tasks its control group allows.
    pub task_limit: Option<u64>,
}

impl Machine {
    /// The machine as its files tell it.
    pub fn find(root: &Root) -> Machine {
        let kernel = root.read("/proc/sys/kernel/osrelease").map(|text| text.trim().to_owned());
        let wsl =
            kernel.as_ref().is_some_and(|kernel| kernel.to_ascii_lowercase().contains("microsoft"));
        Machine {
            container: container(root),
            wsl,
            memory_limit: limit(root, "memory.max", Some("memory/memory.limit_in_bytes")),
            task_limit: limit(root, "pids.max", None),
            kernel,
        }
    }

    /// In words.
    pub fn describe(&self) -> String {
        let mut parts = vec![format!(
            "Linux {} {}",
            self.kernel.as_deref().unwrap_or("(unknown)"),
            std::env::consts::ARCH
        )];
        parts.extend(self.wsl.then(|| "WSL".to_owned()));
        parts.extend(self.container.map(|kind| match kind {
            "container" => "in a container".to_owned(),
            kind => format!("in a container ({kind})"),
        }));
        parts.extend(
            self.memory_limit
                .map(|bytes| format!("control group: {} of memory", crate::print::bytes(bytes))),
        );
        parts.extend(self.task_limit.map(|tasks| format!("{tasks} tasks")));
        parts.join(", ")
    }
}

fn container(root: &Root) -> Option<&'static str> {
    let groups = root.read("/proc/1/cgroup").unwrap_or_default();
    if root.exists("/var/run/secrets/kubernetes.io") || groups.contains("kubepods") {
        Some("kubernetes")
    } else if root.exists("/.dockerenv") || groups.contains("docker") {
        Some("docker")
    } else if root.exists("/run/.containerenv") {
        Some("podman")
    } else if ["containerd", "lxc"].iter().any(|name| groups.contains(name)) {
        Some("container")
    } else {
        None
    }
}

/// The least of what this process's control group and those above it allow. `name` is the file of the
/// second version, `old` that of the first.
fn limit(root: &Root, name: &str, old: Option<&str>) -> Option<u64> {
    // Larger than any machine: what the first version writes for "no limit".
    const NO_LIMIT: u64 = 1 << 60;
    let groups = root.read("/proc/self/cgroup").unwrap_or_default();
    let own = groups.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or("/");
    let mut folder = std::path::Path::new("/sys/fs/cgroup").join(own.trim_start_matches('/'));
    let mut least: Option<u64> = None;
    let mut take = |text: Option<String>| {
        let bytes = text.and_then(|text| text.trim().parse().ok());
        let bytes = bytes.filter(|bytes| *bytes < NO_LIMIT);
        least = [least, bytes].into_iter().flatten().min();
    };
    while folder.starts_with("/sys/fs/cgroup") {
        take(root.read(folder.join(name)));
        if !folder.pop() {
            break;
        }
    }
    if let Some(old) = old {
        take(root.read(format!("/sys/fs/cgroup/{old}")));
    }
    least
}
