//! Non-blocking streams, priorities, the device of a stream, streams of other makers (S2).

use super::events::Mark;
use crate::address::Address;
use crate::caller::Caller;
use crate::case::Area;
use crate::context::Context;
use crate::gate::Gate;
use crate::guarded::Guarded;
use crate::outcome::Checked;
use crate::place::{Block, Place};
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{MemcpyKind, Stream};

cases! { Area::Streams;
    "S2" the_default_stream_does_not_wait_for_a_non_blocking_one [StreamOptions, Gates];
    "S2" a_non_blocking_stream_does_not_wait_for_the_default_one [StreamOptions, Gates];
    "S2" a_blocking_stream_of_the_extended_table_is_ordered [StreamOptions, Gates];
    "S2" non_blocking_streams_do_not_wait_for_each_other [StreamOptions, Gates];
    "S2" the_device_waits_for_its_non_blocking_streams [StreamOptions, Gates];
    "C2" a_synchronous_copy_does_not_wait_for_a_non_blocking_stream [StreamOptions, Gates];
    "C2" a_synchronous_copy_is_there_for_a_non_blocking_stream [StreamOptions];
    "M4" freed_memory_is_not_handed_out_while_a_non_blocking_stream_reads_it
        [StreamOptions, Gates];
    "S2" the_range_of_priorities_is_one_and_stays [StreamOptions];
    "S2" a_priority_outside_of_the_range_is_clamped [StreamOptions];
    "S2" streams_of_every_priority_and_kind_work [StreamOptions];
    "S2" stream_flags_without_a_meaning_are_refused [StreamOptions];
    "S5" a_query_of_a_non_blocking_stream_does_not_wait [StreamOptions, Gates, StreamQuery];
    "S4" a_stream_knows_its_device [];
    "S3" a_stream_that_is_none_has_no_device [];
    "S3" adopting_what_is_known_changes_nothing [ForeignStreams];
}

fn apart(context: &Context) -> Checked<Stream> {
    let stream = context.ok(context.x.create_stream_with(0, 1, 0), "create_stream_with")?;
    ensure!(!stream.is_default(), "create_stream_with: expected a handle, found NULL");
    Ok(stream)
}

fn the_default_stream_does_not_wait_for_a_non_blocking_one(context: &'static Context) -> Checked {
    let stream = apart(context)?;
    let mark = Mark::new(context, 1)?;
    let gate = Gate::hold(context, 0, stream)?;
    mark.put(context, Stream::DEFAULT)?;
    context.wait(Stream::DEFAULT)?;
    mark.expect_passed("in the default stream, while a non-blocking stream is held")?;
    gate.open();
    context.wait(stream)?;
    context.destroy(stream)
}

fn a_non_blocking_stream_does_not_wait_for_the_default_one(context: &'static Context) -> Checked {
    let stream = apart(context)?;
    let mark = Mark::new(context, 1)?;
    let gate = Gate::hold(context, 0, Stream::DEFAULT)?;
    mark.put(context, stream)?;
    context.wait(stream)?;
    mark.expect_passed("in a non-blocking stream, while the default stream is held")?;
    gate.open();
    context.wait(Stream::DEFAULT)?;
    context.destroy(stream)
}

fn a_blocking_stream_of_the_extended_table_is_ordered(context: &'static Context) -> Checked {
    let stream = context.ok(context.x.create_stream_with(0, 0, 0), "create_stream_with")?;
    for (held, other) in [(stream, Stream::DEFAULT), (Stream::DEFAULT, stream)] {
        let mark = Mark::new(context, 1)?;
        let gate = Gate::hold(context, 0, held)?;
        mark.put(context, other)?;
        let caller = Caller::start(move || context.wait(other))?;
        caller.expect_waiting("a blocking stream and the default stream are ordered")?;
        mark.expect_not_passed("behind the other one's gate")?;
        gate.open();
        caller.join()?;
        mark.expect_passed("once the other one went on")?;
    }
    context.destroy(stream)
}

fn non_blocking_streams_do_not_wait_for_each_other(context: &'static Context) -> Checked {
    let (one, two) = (apart(context)?, apart(context)?);
    let mark = Mark::new(context, 1)?;
    let gate = Gate::hold(context, 0, one)?;
    mark.put(context, two)?;
    context.wait(two)?;
    mark.expect_passed("in one non-blocking stream, while another is held")?;
    gate.open();
    context.wait(one)?;
    context.destroy(one)?;
    context.destroy(two)
}

fn the_device_waits_for_its_non_blocking_streams(context: &'static Context) -> Checked {
    let stream = apart(context)?;
    let gate = Gate::hold(context, 0, stream)?;
    let caller =
        Caller::start(move || context.ok(context.x.device_synchronize(0), "device_synchronize"))?;
    caller.expect_waiting("device_synchronize, while a non-blocking stream is held")?;
    gate.open();
    caller.join()?;
    context.destroy(stream)
}

fn a_synchronous_copy_does_not_wait_for_a_non_blocking_stream(
    context: &'static Context,
) -> Checked {
    let stream = apart(context)?;
    let gate = Gate::hold(context, 0, stream)?;
    for place in [Place::Pinned, Place::Pageable] {
        let bytes = context.bytes(1, 70_000);
        let source = Block::filled(context, place, &bytes)?;
        let target = Guarded::new(context, Place::Device, bytes.len())?;
        let (to, from) = (target.address(), source.address());
        context.copy(to, from, bytes.len(), MemcpyKind::H2D)?;
        target.expect(&bytes, &format!("from {place:?} memory, while the stream is held"))?;
    }
    gate.open();
    context.wait(stream)?;
    context.destroy(stream)
}

fn a_synchronous_copy_is_there_for_a_non_blocking_stream(context: &'static Context) -> Checked {
    let stream = apart(context)?;
    let block = Block::device(context, 50_000)?;
    let target = Guarded::new(context, Place::Pinned, 50_000)?;
    for round in 0..context.times(60) as u64 {
        let bytes = context.bytes(round, 50_000);
        let from = Address::of(&bytes);
        context.copy(block.address(), from, bytes.len(), MemcpyKind::H2D)?;
        let to = target.address();
        context.enqueue(to, block.address(), bytes.len(), MemcpyKind::D2H, stream)?;
        context.wait(stream)?;
        target.expect(&bytes, "what a synchronous copy brought, seen by a non-blocking stream")?;
    }
    context.destroy(stream)
}

fn freed_memory_is_not_handed_out_while_a_non_blocking_stream_reads_it(
    context: &'static Context,
) -> Checked {
    let stream = apart(context)?;
    let bytes = context.bytes(1, 100_000);
    let block = Block::filled(context, Place::Device, &bytes)?;
    let target = Guarded::new(context, Place::Pinned, bytes.len())?;
    let gate = Gate::hold(context, 0, stream)?;
    context.enqueue(target.address(), block.address(), bytes.len(), MemcpyKind::D2H, stream)?;
    block.free()?;
    let mut successors = Vec::new();
    for _ in 0..16 {
        successors.push(Block::filled(context, Place::Device, &vec![0xee; bytes.len()])?);
    }
    gate.open();
    context.wait(stream)?;
    target.expect(&bytes, "a copy in a non-blocking stream of memory that was freed behind it")?;
    context.destroy(stream)
}

fn the_range_of_priorities_is_one_and_stays(context: &'static Context) -> Checked {
    for device in 0..context.count {
        let range = |what: &str| context.ok(context.x.get_stream_priority_range(device), what);
        let (least, greatest) = range("get_stream_priority_range")?;
        ensure!(greatest <= least, "the greatest priority {greatest} is above the least {least}");
        ensure!((-1000..=1000).contains(&least), "the least priority is {least}");
        ensure_eq!(range("again")?, (least, greatest), "the range, asked again");
    }
    let answer = context.x.get_stream_priority_range(context.count);
    let what = "a device that does not exist";
    context.answered(answer, "get_stream_priority_range", Status::InvalidDevice, what).map(drop)
}

fn a_priority_outside_of_the_range_is_clamped(context: &'static Context) -> Checked {
    for priority in [i32::MIN, -1_000_000, -6, 6, 1_000_000, i32::MAX] {
        for flags in [0, 1] {
            let made = context.x.create_stream_with(0, flags, priority);
            let stream = context.ok(made, &format!("create_stream_with priority {priority}"))?;
            let mark = Mark::new(context, 1)?;
            mark.put(context, stream)?;
            context.wait(stream)?;
            mark.expect_passed("a stream of a clamped priority")?;
            context.destroy(stream)?;
        }
    }
    Ok(())
}

fn streams_of_every_priority_and_kind_work(context: &'static Context) -> Checked {
    let range = context.x.get_stream_priority_range(0);
    let (least, greatest) = context.ok(range, "get_stream_priority_range")?;
    let mut streams = Vec::new();
    for priority in greatest..=least {
        for flags in [0, 1] {
            let made = context.x.create_stream_with(0, flags, priority);
            let stream = context.ok(made, "create_stream_with")?;
            ensure!(!streams.contains(&stream), "two streams have one handle");
            streams.push(stream);
        }
    }
    for (number, stream) in streams.iter().enumerate() {
        let mark = Mark::new(context, number as u64)?;
        mark.put(context, *stream)?;
        context.wait(*stream)?;
        mark.expect_passed(&format!("stream {number}"))?;
    }
    streams.into_iter().try_for_each(|stream| context.destroy(stream))
}

fn stream_flags_without_a_meaning_are_refused(context: &'static Context) -> Checked {
    for flags in [2, 3, 1 << 16, u32::MAX] {
        let answer = context.x.create_stream_with(0, flags, 0);
        let what = format!("stream flags {flags:#x}");
        context.answered(answer, "create_stream_with", Status::InvalidValue, &what)?;
    }
    for device in [-1, context.count] {
        let answer = context.x.create_stream_with(device, 0, 0);
        let what = format!("device {device}");
        context.answered(answer, "create_stream_with", Status::InvalidDevice, &what)?;
    }
    Ok(())
}

fn a_query_of_a_non_blocking_stream_does_not_wait(context: &'static Context) -> Checked {
    let stream = apart(context)?;
    ensure!(context.ready(0, stream)?, "a new stream has nothing pending");
    let gate = Gate::hold(context, 0, stream)?;
    for _ in 0..100 {
        ensure!(!context.ready(0, stream)?, "a held stream is not ready");
        ensure!(context.ready(0, Stream::DEFAULT)?, "the default stream has nothing pending");
    }
    gate.open();
    context.wait(stream)?;
    ensure!(context.ready(0, stream)?, "the stream was waited for");
    context.destroy(stream)
}

fn a_stream_knows_its_device(context: &'static Context) -> Checked {
    for device in 0..context.count {
        let stream = context.ok(context.x.create_stream(device), "create_stream")?;
        context.set_device(context.count - 1 - device)?;
        let found = context.ok(context.x.get_stream_device(stream), "get_stream_device")?;
        ensure_eq!(found, device, "the device of a stream of device {device}");
        context.destroy(stream)?;
    }
    Ok(())
}

fn a_stream_that_is_none_has_no_device(context: &'static Context) -> Checked {
    let stream = context.stream()?;
    context.destroy(stream)?;
    let garbage = Stream(Address::GARBAGE.pointer());
    for (stream, what) in
        [(stream, "a destroyed stream"), (garbage, "garbage"), (Stream::DEFAULT, "NULL")]
    {
        let answer = context.x.get_stream_device(stream);
        context.answered(answer, "get_stream_device", Status::InvalidHandle, what)?;
    }
    Ok(())
}

fn adopting_what_is_known_changes_nothing(context: &'static Context) -> Checked {
    let answer = context.x.adopt_stream(Address::NULL);
    context.answered(answer, "adopt_stream", Status::InvalidValue, "NULL")?;
    for device in 0..context.count {
        let stream = context.ok(context.x.create_stream(device), "create_stream")?;
        let known = Address::from_pointer(stream.0);
        let found = context.ok(context.x.adopt_stream(known), "adopt_stream")?;
        ensure_eq!(found, device, "the device of a stream that is known already");
        context.destroy(stream)?;
        let answer = context.x.stream_synchronize(device, stream);
        let what = "a stream that was destroyed once after it was adopted";
        context.answered(answer, "stream_synchronize", Status::InvalidHandle, what)?;
    }
    Ok(())
}
