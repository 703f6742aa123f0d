//! Fills.

use super::doors;
use crate::fills::{Elements, fill};

const fn rows(value: u32, size: usize, width: usize, height: usize, pitch: usize) -> Elements {
    Elements { value, size, width, height, pitch }
}

doors! {
    current cuMemsetD8_v2(to: usize, value: u8, count: usize) |here| {
        fill(here.driver, to, Elements::line(value.into(), 1, count), None)
    };
    current cuMemsetD16_v2(to: usize, value: u16, count: usize) |here| {
        fill(here.driver, to, Elements::line(value.into(), 2, count), None)
    };
    current cuMemsetD32_v2(to: usize, value: u32, count: usize) |here| {
        fill(here.driver, to, Elements::line(value, 4, count), None)
    };
    by_handle cuMemsetD8Async(to: usize, value: u8, count: usize, stream: usize) |driver| {
        fill(driver, to, Elements::line(value.into(), 1, count), Some(stream))
    };
    by_handle cuMemsetD16Async(to: usize, value: u16, count: usize, stream: usize) |driver| {
        fill(driver, to, Elements::line(value.into(), 2, count), Some(stream))
    };
    by_handle cuMemsetD32Async(to: usize, value: u32, count: usize, stream: usize) |driver| {
        fill(driver, to, Elements::line(value, 4, count), Some(stream))
    };
    current cuMemsetD2D8_v2(to: usize, pitch: usize, value: u8, width: usize, height: usize) |here| {
        fill(here.driver, to, rows(value.into(), 1, width, height, pitch), None)
    };
    current cuMemsetD2D16_v2(to: usize, pitch: usize, value: u16, width: usize, height: usize) |here| {
        fill(here.driver, to, rows(value.into(), 2, width, height, pitch), None)
    };
    current cuMemsetD2D32_v2(to: usize, pitch: usize, value: u32, width: usize, height: usize) |here| {
        fill(here.driver, to, rows(value, 4, width, height, pitch), None)
    };
    by_handle cuMemsetD2D8Async(to: usize, pitch: usize, value: u8, width: usize, height: usize, stream: usize) |driver| {
        fill(driver, to, rows(value.into(), 1, width, height, pitch), Some(stream))
    };
    by_handle cuMemsetD2D16Async(to: usize, pitch: usize, value: u16, width: usize, height: usize, stream: usize) |driver| {
        fill(driver, to, rows(value.into(), 2, width, height, pitch), Some(stream))
    };
    by_handle cuMemsetD2D32Async(to: usize, pitch: usize, value: u32, width: usize, height: usize, stream: usize) |driver| {
        fill(driver, to, rows(value, 4, width, height, pitch), Some(stream))
    };
}
