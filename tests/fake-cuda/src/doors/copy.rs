//! Copies of a range.

use super::doors;
use crate::copies::{Ends, Request, at_once, on_stream};

doors! {
    current cuMemcpy(to: usize, from: usize, bytes: usize) |here| at_once(here.driver, Request::line(to, from, bytes, Ends::ANY), &[]);
    ready cuMemcpyAsync(to: usize, from: usize, bytes: usize, stream: usize) |driver| {
        on_stream(driver, Request::line(to, from, bytes, Ends::ANY), stream)
    };
    current cuMemcpyHtoD_v2(to: usize, from: usize, bytes: usize) |here| {
        at_once(here.driver, Request::line(to, from, bytes, Ends::TO_KNOWN), &[])
    };
    current cuMemcpyDtoH_v2(to: usize, from: usize, bytes: usize) |here| {
        at_once(here.driver, Request::line(to, from, bytes, Ends::FROM_KNOWN), &[])
    };
    current cuMemcpyDtoD_v2(to: usize, from: usize, bytes: usize) |here| {
        at_once(here.driver, Request::line(to, from, bytes, Ends::KNOWN), &[])
    };
    ready cuMemcpyHtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) |driver| {
        on_stream(driver, Request::line(to, from, bytes, Ends::TO_KNOWN), stream)
    };
    ready cuMemcpyDtoHAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) |driver| {
        on_stream(driver, Request::line(to, from, bytes, Ends::FROM_KNOWN), stream)
    };
    ready cuMemcpyDtoDAsync_v2(to: usize, from: usize, bytes: usize, stream: usize) |driver| {
        on_stream(driver, Request::line(to, from, bytes, Ends::KNOWN), stream)
    };
    current cuMemcpyPeer(to: usize, to_context: usize, from: usize, from_context: usize, bytes: usize) |here| {
        let others = [here.context, to_context, from_context];
        at_once(here.driver, Request::line(to, from, bytes, Ends::PEERS), &others)
    };
    ready cuMemcpyPeerAsync(to: usize, _to_context: usize, from: usize, _from_context: usize, bytes: usize, stream: usize) |driver| {
        on_stream(driver, Request::line(to, from, bytes, Ends::PEERS), stream)
    };
}
