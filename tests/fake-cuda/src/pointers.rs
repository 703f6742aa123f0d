//! What the driver says of a pointer.
//!
//! The rule: memory that the driver does not know is an error when one thing is asked, and has empty
//! answers when several are.

use crate::driver::Driver;
use crate::entry::Out;
use crate::errors::{Answer, INVALID_VALUE};
use crate::memory::Block;

/// A value, of the width that its attribute has.
pub enum Value {
    Word(usize),
    Int(i32),
    Flag(bool),
    Words([u64; 2]),
}

impl Value {
    pub fn put(self, place: *mut u8) -> Answer {
        match self {
            Value::Word(value) => place_of(place)?.set(value),
            Value::Int(value) => place_of(place)?.set(value),
            Value::Flag(value) => place_of(place)?.set(u8::from(value)),
            Value::Words(value) => place_of(place)?.set(value),
        }
    }
}

fn place_of<T>(place: *mut u8) -> Answer<Out<T>> {
    crate::entry::out(place.cast())
}

const DEVICE: i32 = 2;
const HOST: i32 = 1;

/// `cuPointerGetAttribute`.
pub fn attribute(driver: &'static Driver, attribute: i32, pointer: usize) -> Answer<Value> {
    let world = driver.lock();
    let (start, block) = world.block_at(pointer).ok_or(INVALID_VALUE)?;
    let device = match block {
        Block::Device(allocation) => allocation.device,
        Block::Host(host) => world.device_of(host.context),
    };
    let allocation = match block {
        Block::Device(allocation) => Some(allocation),
        Block::Host(_) => None,
    };
    let pool = allocation.and_then(|allocation| allocation.pool);
    let managed = allocation.is_some_and(|allocation| allocation.managed().is_some());
    Ok(match attribute {
        1 => Value::Word(match block {
            Block::Device(allocation) => allocation.context.unwrap_or(0),
            Block::Host(host) => host.context,
        }),
        2 => Value::Int(if allocation.is_some() { DEVICE } else { HOST }),
        3 => Value::Word(pointer),
        4 if allocation.is_none() || managed => Value::Word(pointer),
        5 if allocation.is_some() => Value::Words([0; 2]),
        6 => Value::Int(0),
        7 => Value::Word(allocation.map_or(start, |allocation| allocation.number as usize)),
        8 => Value::Flag(managed),
        9 => Value::Int(device as i32),
        10 => Value::Flag(allocation.is_some() && pool.is_none() && !managed),
        11 => Value::Word(start),
        12 => Value::Word(block.bytes()),
        13 => Value::Flag(true),
        14 => Value::Word(0),
        15 => Value::Flag(allocation.is_some() && !managed),
        16 => Value::Int(3),
        17 => Value::Word(pool.unwrap_or(0)),
        _ => return Err(INVALID_VALUE),
    })
}

/// What several attributes are of memory that the driver does not know.
pub fn unknown(attribute: i32) -> Answer<Value> {
    Ok(match attribute {
        2 | 6 | 16 => Value::Int(0),
        9 => Value::Int(-2),
        1 | 3 | 4 | 7 | 11 | 12 | 14 | 17 => Value::Word(0),
        5 => Value::Words([0; 2]),
        8 | 10 | 13 | 15 => Value::Flag(false),
        _ => return Err(INVALID_VALUE),
    })
}
