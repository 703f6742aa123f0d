//! What the control group of this process allows, version 1 and 2.
//!
//! Rules: every level from the process's group up to the root counts, since a parent's limit holds
//! too. What cannot be read does not limit. (Its processor quota is read by the standard library's
//! `available_parallelism`.)

use std::fs;
use std::path::{Path, PathBuf};

/// The files of one version of control groups.
struct Version {
    mount: &'static str,
    limit: &'static str,
    usage: &'static str,
    /// In `memory.stat`: cache that the kernel drops before it fails anybody.
    reclaimable: &'static str,
}

const V1: Version = Version {
    mount: "sys/fs/cgroup/memory",
    limit: "memory.limit_in_bytes",
    usage: "memory.usage_in_bytes",
    reclaimable: "total_inactive_file",
};
const V2: Version = Version {
    mount: "sys/fs/cgroup",
    limit: "memory.max",
    usage: "memory.current",
    reclaimable: "inactive_file",
};
const V2_BESIDE_V1: Version = Version { mount: "sys/fs/cgroup/unified", ..V2 };

struct Level {
    folder: PathBuf,
    version: &'static Version,
    limit: u64,
}

/// The least memory limit of the groups of this process, in bytes. `root` is `/`.
pub fn memory_limit(root: &Path) -> Option<u64> {
    levels(root).iter().map(|level| level.limit).min()
}

/// The bytes that the groups of this process still allow. `root` is `/`.
pub fn memory_available(root: &Path) -> Option<u64> {
    levels(root)
        .iter()
        .map(|level| {
            let usage = number(&level.folder.join(level.version.usage)).unwrap_or(0);
            let stat = fs::read_to_string(level.folder.join("memory.stat")).unwrap_or_default();
            let reclaimable = field(&stat, level.version.reclaimable).unwrap_or(0);
            level.limit.saturating_sub(usage.saturating_sub(reclaimable))
        })
        .min()
}

/// The levels that have a limit.
fn levels(root: &Path) -> Vec<Level> {
    let groups = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mut levels = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        if controllers.is_empty() {
            climb(root, path, &V2, &mut levels);
            climb(root, path, &V2_BESIDE_V1, &mut levels);
        } else if controllers.split(',').any(|controller| controller == "memory") {
            climb(root, path, &V1, &mut levels);
        }
    }
    levels
}

fn climb(root: &Path, path: &str, version: &'static Version, levels: &mut Vec<Level>) {
    let mount = root.join(version.mount);
    // In a container the path may be that of the host, or lead out of what is mounted: then only
    // the mount itself is there to be read.
    let inside = path.trim_start_matches('/');
    let inside = if inside.split('/').any(|part| part == "..") { "" } else { inside };
    let mut folder = mount.join(inside);
    loop {
        if let Some(limit) = number(&folder.join(version.limit)) {
            levels.push(Level { folder: folder.clone(), version, limit });
        }
        if folder == mount || !folder.pop() {
            return;
        }
    }
}

/// The number in a file; `None` for "max", nonsense, or no file.
fn number(file: &Path) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn field(stat: &str, name: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Root(PathBuf);

    impl Root {
        fn new(name: &str, files: &[(&str, &str)]) -> Root {
            let folder = format!("llaisys-cgroup-{}-{name}", std::process::id());
            let root = Root(std::env::temp_dir().join(folder));
            for (file, text) in files {
                let file = root.0.join(file);
                fs::create_dir_all(file.parent().expect("a file has a folder")).expect("made");
                fs::write(file, text).expect("written");
            }
            root
        }
    }

    impl Drop for Root {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn version_two_a_parents_limit_holds_and_cache_is_not_counted() {
        let root = Root::new(
            "v2",
            &[
                ("proc/self/cgroup", "0::/pod/box\n"),
                ("sys/fs/cgroup/pod/box/memory.max", "max\n"),
                ("sys/fs/cgroup/pod/memory.max", "1000\n"),
                ("sys/fs/cgroup/pod/memory.current", "700\n"),
                ("sys/fs/cgroup/pod/memory.stat", "anon 1\ninactive_file_x 9\ninactive_file 200\n"),
            ],
        );
        assert_eq!(memory_limit(&root.0), Some(1000));
        assert_eq!(memory_available(&root.0), Some(500));
    }

    #[test]
    fn version_one_in_a_container_that_sees_the_hosts_path() {
        let root = Root::new(
            "v1",
            &[
                ("proc/self/cgroup", "4:cpu,cpuacct:/docker/abc\n3:memory:/docker/abc\n"),
                ("sys/fs/cgroup/memory/memory.limit_in_bytes", "4096\n"),
                ("sys/fs/cgroup/memory/memory.usage_in_bytes", "5000\n"),
            ],
        );
        assert_eq!(memory_limit(&root.0), Some(4096));
        assert_eq!(memory_available(&root.0), Some(0));
    }

    #[test]
    fn no_group_no_limit() {
        let root = Root::new("none", &[("proc/self/cgroup", "0::/../../other\nnonsense\n")]);
        assert_eq!(memory_limit(&root.0), None);
        assert_eq!(memory_available(&root.0), None);
    }
}
