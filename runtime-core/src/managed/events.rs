//! Events: what is remembered of them, and the errors that must be told apart (contract V1–V3).

use super::Managed;
use crate::api::{Event, EventFlags, Ordinal, RuntimeApi, Stream};
use crate::error::{Error, Result};
use crate::events::Entered;
use crate::host_function;
use crate::status::Status;

impl<B: RuntimeApi> Managed<B> {
    pub(super) fn make_event(&self, device: Ordinal, flags: EventFlags) -> Result<Event> {
        let native = self.on(device, |backend| backend.create_event(device, flags))?;
        self.events.insert(device, flags, native).inspect_err(|_| {
            // SAFETY: the backend just made it, and nobody else knows it.
            let _ = self.on(device, |backend| unsafe { backend.destroy_event(device, native) });
        })
    }

    /// Runs a call inside an event that stays alive meanwhile, where that is needed, and destroys the event
    /// natively at the end when another thread removed it.
    #[inline]
    pub(super) fn in_event<T>(
        &self,
        event: Event,
        call: impl FnOnce(&Entered<'_>) -> Result<T>,
    ) -> Result<T> {
        let entered = if self.backend.checks_handles() {
            self.events.look(event)?
        } else {
            self.events.enter(event)?
        };
        let result = call(&entered);
        // The remover's call has returned; there is nobody to report a failure to.
        let _ = self.leave_event(entered);
        result
    }

    #[inline]
    fn leave_event(&self, entered: Entered<'_>) -> Result<()> {
        let Some((doomed, index)) = entered.leave() else { return Ok(()) };
        // SAFETY: it is out of the table, and this was the last call inside it.
        let destroyed = self.on(doomed.device, |backend| unsafe {
            backend.destroy_event(doomed.device, doomed.native)
        });
        self.events.emptied(index);
        destroyed
    }

    pub(super) fn remove_event(&self, event: Event) -> Result<()> {
        let entered = self.events.remove(event)?;
        self.leave_event(entered)
    }

    pub(super) fn record(&self, device: Ordinal, event: Event, stream: Stream) -> Result<()> {
        self.may_enqueue()?;
        let entered = self.pass(device, stream)?;
        let device = entered.device;
        self.in_event(event, |call| {
            if call.device != device {
                let of = call.device;
                let message = format!("the event is of device {of}, the stream of device {device}");
                return Err(Error::new(Status::InvalidValue, message));
            }
            // SAFETY: both are alive while they are entered, and of this device.
            self.on(device, |backend| unsafe {
                backend.record_event(device, call.native, stream)
            })?;
            call.recorded();
            Ok(())
        })?;
        self.finish(device, stream)
    }

    pub(super) fn wait_in_stream(
        &self,
        device: Ordinal,
        stream: Stream,
        event: Event,
    ) -> Result<()> {
        self.may_enqueue()?;
        let entered = self.pass(device, stream)?;
        let device = entered.device;
        self.check_device(device)?;
        self.in_event(event, |call| {
            if call.is_ready() {
                // The backend is not asked, so it has not seen whether there is such a stream.
                let is_default = stream.is_default();
                return if is_default { Ok(()) } else { self.streams.device_of(stream).map(drop) };
            }
            // SAFETY: both are alive while they are entered, and the event was recorded.
            self.on(device, |backend| unsafe {
                backend.stream_wait_event(device, stream, call.native)
            })
        })?;
        self.finish(device, stream)
    }

    /// Asks the backend about an event that is not known to be reached.
    #[cold]
    pub(super) fn ask_event(&self, event: Event) -> Result<bool> {
        self.in_event(event, |call| self.is_reached(call))
    }

    fn is_reached(&self, call: &Entered<'_>) -> Result<bool> {
        if call.is_ready() {
            return Ok(true);
        }
        // SAFETY: the event is alive while it is entered.
        let reached = self
            .on(call.device, |backend| unsafe { backend.event_query(call.device, call.native) })?;
        if reached {
            call.reached();
        }
        Ok(reached)
    }

    pub(super) fn wait_for_event(&self, event: Event) -> Result<()> {
        host_function::may_block()?;
        self.in_event(event, |call| {
            if call.is_ready() {
                return Ok(());
            }
            // SAFETY: the event is alive while it is entered.
            self.on(call.device, |backend| unsafe {
                backend.event_synchronize(call.device, call.native)
            })?;
            call.reached();
            Ok(())
        })
    }

    pub(super) fn elapsed(&self, start: Event, end: Event) -> Result<i64> {
        self.in_event(start, |start| {
            self.in_event(end, |end| {
                for (name, call) in [("start", start), ("end", end)] {
                    self.check_measurable(name, call)?;
                }
                if start.device != end.device {
                    let message = format!(
                        "`start` is of device {}, `end` of device {}; their clocks are not one",
                        start.device, end.device
                    );
                    return Err(Error::new(Status::InvalidValue, message));
                }
                // SAFETY: both are alive while they are entered, timed, recorded and reached.
                self.on(start.device, |backend| unsafe {
                    backend.event_elapsed(start.device, start.native, end.native)
                })
            })
        })
    }

    fn check_measurable(&self, name: &str, call: &Entered<'_>) -> Result<()> {
        let (status, what) = if !call.flags.contains(EventFlags::TIMING) {
            (Status::TimingDisabled, "was made without timing")
        } else if !call.was_recorded() {
            (Status::NotRecorded, "was never recorded")
        } else if !self.is_reached(call)? {
            (Status::NotReady, "is not reached yet")
        } else {
            return Ok(());
        };
        Err(Error::new(status, format!("`{name}` {what}")))
    }
}
