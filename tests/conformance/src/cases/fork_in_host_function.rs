//! A fork that a host function makes, or that is made while one runs (H1, L2): the function is the parent's.
//! The child's thread stands in no stream, so it may wait.

use super::fork::{in_a_child, the_cpu_works, works_or_is_told};
use crate::address::Address;
use crate::case::Area;
use crate::context::Context;
use crate::extended::{Answer, Copy};
use crate::gate::Gate;
use crate::outcome::{Checked, Stop};
use crate::program::Bare;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream};
use std::ffi::c_void;
use std::sync::mpsc::{self, Receiver, Sender};

cases! { Area::Life;
    "H1" a_child_made_inside_a_host_function_may_wait [Gates];
    "H1" a_child_made_while_a_host_function_runs_may_wait [Gates];
    "H1" a_parent_that_forked_inside_a_host_function_may_still_not_wait [Gates];
}

programs![fork_inside, fork_beside, fork_and_wait_in_the_parent];

type Body = Box<dyn FnOnce() -> Checked + Send>;

unsafe extern "C" fn run(data: *mut c_void) {
    // SAFETY: `launch` passes such a box, once.
    let (body, told) = *unsafe { Box::from_raw(data.cast::<(Body, Sender<Checked>)>()) };
    let _ = told.send(body());
}

/// Has the stream run a body; what that answers comes through the receiver.
fn launch(
    context: &Context,
    stream: Stream,
    body: impl FnOnce() -> Checked + Send + 'static,
) -> Checked<Receiver<Checked>> {
    let (tell, told) = mpsc::channel();
    let pair: (Body, Sender<Checked>) = (Box::new(body), tell);
    let data = Box::into_raw(Box::new(pair)).cast();
    // SAFETY: `run` takes the box, once, on any thread, and does not unwind.
    let launched = unsafe { context.x.launch_host_function(0, stream, run, data) };
    context.ok(launched, "launch_host_function")?;
    Ok(told)
}

/// What the body answered, once the stream has passed.
fn answer(context: &Context, stream: Stream, told: &Receiver<Checked>) -> Checked {
    context.wait(stream)?;
    told.recv().map_err(|_| Stop::fail("the host function did not run"))?
}

/// Makes every call that waits; each answer is looked at before the next call.
fn each_waiting_call(context: &Context, look: impl Fn(&str, Answer) -> Checked) -> Checked {
    let x = &context.x;
    look("device_synchronize", x.device_synchronize(0))?;
    look("stream_synchronize", x.stream_synchronize(0, Stream::DEFAULT))?;
    let (bytes, mut back) = ([7u8; 64], [0u8; 64]);
    let (dst, src) = (Address::of_mut(&mut back), Address::of(&bytes));
    look("memcpy_sync", x.memcpy_sync(0, Copy::new(dst, src, 64, MemcpyKind::H2H)))
}

/// In a child: calls that wait do so, or say what a fork did to the driver; and all else works.
fn may_wait(context: &'static Context) -> Checked {
    each_waiting_call(context, |operation, answer| match answer {
        Ok(()) => Ok(()),
        Err(_) => context.answered(answer, operation, Status::Forked, "in a child").map(drop),
    })?;
    works_or_is_told(context)?;
    the_cpu_works(context)
}

fn a_child_made_inside_a_host_function_may_wait(context: &'static Context) -> Checked {
    context.program("fork_inside").run()?.expect_success()
}

fn fork_inside(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let stream = context.stream()?;
    for on in [stream, Stream::DEFAULT] {
        // In the child, and in a child that the child makes.
        let body = move || {
            in_a_child(|| {
                may_wait(context)?;
                in_a_child(|| may_wait(context))
            })
        };
        let told = launch(context, on, body)?;
        answer(context, on, &told)?;
    }
    context.destroy(stream)?;
    Ok(0)
}

fn a_child_made_while_a_host_function_runs_may_wait(context: &'static Context) -> Checked {
    context.program("fork_beside").run()?.expect_success()
}

fn fork_beside(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let stream = context.stream()?;
    for on in [stream, Stream::DEFAULT] {
        let gate = Gate::hold(context, 0, on)?;
        in_a_child(|| may_wait(context))?;
        gate.open();
        context.wait(on)?;
    }
    context.destroy(stream)?;
    Ok(0)
}

fn a_parent_that_forked_inside_a_host_function_may_still_not_wait(
    context: &'static Context,
) -> Checked {
    context.program("fork_and_wait_in_the_parent").run()?.expect_success()
}

fn fork_and_wait_in_the_parent(bare: &Bare) -> Checked<i32> {
    let context = bare.context()?;
    let stream = context.stream()?;
    let body = move || {
        in_a_child(|| Ok(()))?;
        each_waiting_call(context, |operation, answer| {
            let what = "inside a host function that forked";
            context.answered(answer, operation, Status::NotPermitted, what).map(drop)
        })
    };
    let told = launch(context, stream, body)?;
    answer(context, stream, &told)?;
    context.destroy(stream)?;
    Ok(0)
}
