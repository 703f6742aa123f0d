//! Questions about the beginning and the end: initialisation, look-up of functions, fork, visible devices.

use super::asker::{Driver, Word};

pub fn before_init(d: &Driver) {
    let mut w = Word::default();
    d.ask("before init", "cuDriverGetVersion", &[w.at()]);
    d.ask("into null", "cuDriverGetVersion", &[0]);
    for name in ["cuDeviceGetCount", "cuCtxGetCurrent", "cuCtxPopCurrent_v2"] {
        d.ask("before init", name, &[w.at()]);
    }
    d.ask("before init", "cuDeviceGet", &[w.at(), 0]);
    d.ask("before init", "cuCtxSetCurrent", &[0]);
    d.ask("before init", "cuCtxSynchronize", &[]);
    d.ask("before init", "cuMemAlloc_v2", &[w.at(), 16]);
    d.ask("before init", "cuMemFree_v2", &[0]);
    d.ask("before init", "cuStreamCreate", &[w.at(), 0]);
    d.ask("before init", "cuStreamSynchronize", &[0]);
    d.ask("before init", "cuDevicePrimaryCtxRetain", &[w.at(), 0]);
    d.ask("before init", "cuGetErrorName", &[100, w.at()]);
    d.ask("unknown code", "cuGetErrorName", &[4242, w.at()]);
    println!("name of an unknown code is null: {}", w.get() == 0);
    d.ask("unknown code", "cuGetErrorString", &[4242, w.at()]);
    d.ask("flags 1", "cuInit", &[1]);
    d.ask("", "cuInit", &[0]);
    d.ask("twice", "cuInit", &[0]);
    d.ask("into null", "cuDeviceGetCount", &[0]);
    d.ask("99", "cuDeviceGet", &[w.at(), 99]);
    d.ask("-1", "cuDeviceGet", &[w.at(), usize::MAX]);
    let mut name = [0u8; 256];
    d.ask("99", "cuDeviceGetName", &[name.as_mut_ptr() as usize, 256, 99]);
    d.ask("length 4", "cuDeviceGetName", &[name.as_mut_ptr() as usize, 4, 0]);
    println!("name in four bytes: {:?}", &name[..4]);
    d.ask("length 4", "cuDeviceGetPCIBusId", &[name.as_mut_ptr() as usize, 4, 0]);
    d.ask("length 64", "cuDeviceGetPCIBusId", &[name.as_mut_ptr() as usize, 64, 0]);
    let end = name.iter().position(|b| *b == 0).unwrap_or(0);
    println!(
        "PCI address has {end} characters, upper case {}",
        !name[..end].iter().any(u8::is_ascii_lowercase)
    );
    d.ask("attribute 0", "cuDeviceGetAttribute", &[w.at(), 0, 0]);
    d.ask("attribute 9999", "cuDeviceGetAttribute", &[w.at(), 9999, 0]);
    d.ask("device 99", "cuDeviceGetAttribute", &[w.at(), 1, 99]);
    for attribute in 1..=138usize {
        *w.0 = 0;
        let code = d.call("cuDeviceGetAttribute", &[w.at(), attribute, 0]);
        if [13, 36, 33, 34, 50].contains(&attribute) {
            println!("attribute {attribute}: {code}");
        } else {
            println!("attribute {attribute}: {code} {}", w.int());
        }
    }
    d.ask("device 99", "cuDeviceTotalMem_v2", &[w.at(), 99]);
    d.ask("device 99", "cuDeviceGetUuid", &[w.at(), 99]);
}

pub fn get_proc_address(d: &Driver) {
    d.must("cuInit", &[0]);
    let mut found = Word::default();
    let mut status = Word::default();
    for (symbol, same, version) in [
        (c"cuMemAlloc", "cuMemAlloc_v2", 12000),
        (c"cuMemAlloc", "cuMemAlloc", 3000),
        (c"cuMemAlloc_v2", "cuMemAlloc_v2", 12000),
        (c"cuNonsense", "cuNonsense", 12000),
        (c"cuMemAllocAsync", "cuMemAllocAsync", 12000),
        (c"cuMemAllocAsync", "cuMemAllocAsync", 10000),
        (c"cuStreamCreate", "cuStreamCreate", 12000),
        (c"cuStreamSynchronize", "cuStreamSynchronize", 12000),
        (c"cuCtxCreate", "cuCtxCreate_v2", 11000),
        (c"cuDeviceGetUuid", "cuDeviceGetUuid_v2", 12000),
        (c"cuDeviceGetUuid", "cuDeviceGetUuid", 11000),
        (c"cuEventElapsedTime", "cuEventElapsedTime", 12000),
        (c"cuEventElapsedTime", "cuEventElapsedTime_v2", 12080),
        (c"cuEventElapsedTime", "cuEventElapsedTime_v2", 13000),
        (c"cuGetProcAddress", "cuGetProcAddress_v2", 12000),
        (c"cuGetProcAddress", "cuGetProcAddress", 11030),
        (c"cuCtxGetDevice", "cuCtxGetDevice", 12000),
        (c"cuDevicePrimaryCtxRelease", "cuDevicePrimaryCtxRelease_v2", 12000),
        (c"cuMemHostRegister", "cuMemHostRegister_v2", 12000),
        (c"cuMemcpyHtoD", "cuMemcpyHtoD_v2", 12000),
        (c"cuMemcpyAsync", "cuMemcpyAsync", 12000),
        (c"cuMemAllocHost", "cuMemAllocHost_v2", 12000),
        (c"", "cuInit", 12000),
    ] {
        *found.0 = 1;
        *status.0 = 77;
        let code = d.call(
            "cuGetProcAddress_v2",
            &[symbol.as_ptr() as usize, found.at(), version, 0, status.at()],
        );
        let same = found.get() != 0 && found.get() == d.address(same);
        println!(
            "{symbol:?} {version}: {code} status {} null {} same {same}",
            status.int(),
            found.get() == 0
        );
        *found.0 = 1;
        let code = d.call("cuGetProcAddress", &[symbol.as_ptr() as usize, found.at(), version, 0]);
        println!("{symbol:?} {version} by the old function: {code} null {}", found.get() == 0);
    }
    d.ask(
        "null status",
        "cuGetProcAddress_v2",
        &[c"cuInit".as_ptr() as usize, found.at(), 12000, 0, 0],
    );
    for name in [
        "cuMemAlloc",
        "cuStreamDestroy",
        "cuEventDestroy",
        "cuCtxDestroy",
        "cuMemcpyHtoD",
        "cuMemHostRegister",
    ] {
        println!("{name} is exported: {}", d.address(name) != 0);
    }
    d.primary();
    let mut w = Word::default();
    for (name, arguments) in [
        ("cuMemAlloc", [w.at(), 512, 0]),
        ("cuMemGetInfo", [w.at(), w.at(), 0]),
        ("cuMemAllocHost", [w.at(), 512, 0]),
        ("cuDeviceTotalMem", [w.at(), 0, 0]),
    ] {
        d.ask("the first version", name, &arguments);
    }
}

pub fn fork(d: &Driver) {
    let context = d.primary();
    let mut memory = Word::default();
    d.must("cuMemAlloc_v2", &[memory.at(), 4096]);
    // SAFETY: the child calls the driver and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let mut w = Word::default();
        d.ask("in the child", "cuDriverGetVersion", &[w.at()]);
        d.ask("in the child", "cuDeviceGetCount", &[w.at()]);
        d.ask("in the child", "cuInit", &[0]);
        d.ask("in the child after init", "cuDeviceGetCount", &[w.at()]);
        d.ask("in the child", "cuCtxGetCurrent", &[w.at()]);
        d.ask("in the child", "cuCtxSetCurrent", &[context]);
        d.ask("in the child", "cuMemAlloc_v2", &[w.at(), 16]);
        d.ask("in the child", "cuMemFree_v2", &[memory.get()]);
        d.ask("in the child", "cuGetErrorName", &[1, w.at()]);
        d.ask("in the child", "cuDevicePrimaryCtxRetain", &[w.at(), 0]);
        super::asker::leave();
    }
    let mut status = 0;
    // SAFETY: the child is ours and the status is a local.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    println!("the child ended with {status}");
    d.ask("in the parent", "cuMemFree_v2", &[memory.get()]);
}

pub fn fork_before_init(d: &Driver) {
    let mut w = Word::default();
    d.ask("before the fork", "cuDriverGetVersion", &[w.at()]);
    d.ask("before the fork", "cuDeviceGetCount", &[w.at()]);
    // SAFETY: the child calls the driver and leaves by _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        d.ask("in the child", "cuInit", &[0]);
        d.ask("in the child", "cuDeviceGetCount", &[w.at()]);
        let context = d.primary();
        d.ask("in the child", "cuMemAlloc_v2", &[w.at(), 16]);
        d.ask("in the child", "cuCtxSetCurrent", &[context]);
        super::asker::leave();
    }
    let mut status = 0;
    // SAFETY: the child is ours and the status is a local.
    unsafe { libc::waitpid(child, &raw mut status, 0) };
    println!("the child ended with {status}");
    d.ask("in the parent", "cuInit", &[0]);
}

pub fn visible(d: &Driver) {
    let mut w = Word::default();
    d.ask("", "cuInit", &[0]);
    *w.0 = 0;
    let code = d.call("cuDeviceGetCount", &[w.at()]);
    println!("count: {code} {}", w.int());
}
