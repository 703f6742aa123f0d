//! The operations that copy, each as one call: what holds for a copy holds for all of them.

use crate::address::Address;
use crate::context::Context;
use crate::extended::memory::Batch;
use crate::extended::{Answer, Copy};
use crate::outcome::Checked;
use llaisys_runtime_core::Status;
use llaisys_runtime_core::api::{CopyFlags, LlaisysCopy3D, LlaisysCopyRange, Stream};

/// The operations that copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// `memcpy_sync` of the twelve.
    TwelveSync,
    /// `memcpy_async` of the twelve.
    TwelveAsync,
    /// `memcpy_sync`.
    Sync,
    /// `memcpy_async`.
    Async,
    /// `memcpy_3d_sync`, of two rows where the size is even.
    PitchedSync,
    /// `memcpy_3d_async`, as above.
    PitchedAsync,
    /// `memcpy_batch_async`, of two ranges.
    Batched,
}

impl Way {
    /// Those that enqueue.
    pub const ENQUEUED: [Way; 4] = [Way::TwelveAsync, Way::Async, Way::PitchedAsync, Way::Batched];
    /// All of them.
    pub const ALL: [Way; 7] = [
        Way::TwelveSync,
        Way::TwelveAsync,
        Way::Sync,
        Way::Async,
        Way::PitchedSync,
        Way::PitchedAsync,
        Way::Batched,
    ];

    /// Whether it knows neither statuses nor inferred kinds.
    pub fn is_of_the_twelve(self) -> bool {
        matches!(self, Way::TwelveSync | Way::TwelveAsync)
    }

    /// What failures name.
    pub fn operation(self) -> &'static str {
        match self {
            Way::TwelveSync | Way::Sync => "memcpy_sync",
            Way::TwelveAsync | Way::Async => "memcpy_async",
            Way::PitchedSync => "memcpy_3d_sync",
            Way::PitchedAsync => "memcpy_3d_async",
            Way::Batched => "memcpy_batch_async",
        }
    }

    /// Makes the call; the twelve tell in the slot alone how it went.
    pub fn copy(self, context: &Context, ends: Ends, kind: u32, stream: Stream) -> Answer {
        let Ends { dst, src, size } = ends;
        let plain = Copy { dst, src, size, kind, flags: CopyFlags::NONE };
        // Two rows, one after the other, or one of an odd number of bytes.
        let height = if size.is_multiple_of(2) { 2 } else { 1 };
        let width = size as u64 / height;
        let pitched = LlaisysCopy3D {
            struct_size: size_of::<LlaisysCopy3D>() as u32,
            kind,
            dst: dst.pointer(),
            dst_pitch: width,
            dst_slice_height: height,
            src: src.pointer(),
            src_pitch: width,
            src_slice_height: height,
            width,
            height,
            depth: 1,
        };
        match self {
            Way::TwelveSync => context.t.memcpy_sync(dst, src, size, kind),
            Way::TwelveAsync => context.t.memcpy_async(dst, src, size, kind, stream),
            Way::Sync => return context.x.memcpy_sync(0, plain),
            Way::Async => return context.x.memcpy_async(0, plain, stream),
            Way::PitchedSync => return context.x.memcpy_3d_sync(0, &pitched),
            Way::PitchedAsync => return context.x.memcpy_3d_async(0, &pitched, stream),
            Way::Batched => {
                let half = size / 2;
                let range = |at: usize, size: usize| LlaisysCopyRange {
                    dst: dst.plus(at).pointer(),
                    src: src.plus(at).pointer(),
                    size: size as u64,
                };
                let ranges = [range(0, half), range(half, size - half)];
                let batch = Batch { ranges: &ranges, kind, flags: CopyFlags::NONE };
                return context.x.memcpy_batch_async(0, batch, stream);
            }
        }
        Ok(())
    }

    /// A copy that must succeed.
    pub fn must(self, context: &Context, ends: Ends, kind: u32, stream: Stream) -> Checked {
        let what = format!("{self:?} of kind {kind}");
        context.ok(self.copy(context, ends, kind, stream), &what)?;
        context.clean(&what)
    }

    /// A copy that must be refused, with these words.
    pub fn refused(self, context: &Context, ends: Ends, kind: u32, words: &str) -> Checked {
        let what = format!("{self:?} of kind {kind}");
        let answer = self.copy(context, ends, kind, Stream::DEFAULT);
        ensure!(
            self.is_of_the_twelve() || answer.is_err(),
            "{what}: expected an error, found none"
        );
        let failure = context.refused(self.operation(), Status::InvalidValue, &what)?;
        let told = failure.message.contains(words);
        ensure!(told, "{what}: expected {words:?} in the message, found {:?}", failure.message);
        Ok(())
    }
}

/// From where to where, and how much.
#[derive(Clone, Copy)]
pub struct Ends {
    /// Where to.
    pub dst: Address,
    /// Where from.
    pub src: Address,
    /// How many bytes.
    pub size: usize,
}
