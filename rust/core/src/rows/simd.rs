//! The few vector operations that the row kernels need, on each instruction set, and the types that logits come in.
//!
//! Explicit intrinsics, since a reduction over plain arrays does not become vector code: the compiler takes the sums
//! apart again. A kernel is written once over [`Simd`], marked `inline(always)`, and called from one function for each
//! instruction set that carries the `target_feature`; only then does all of it compile for that set.
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::{
    __m128i, __m256, __m256i, __m512, _CMP_GT_OQ, _MM_FROUND_NO_EXC, _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128,
    _mm_sfence, _mm_storeu_si128, _mm_stream_si128, _mm256_add_epi32, _mm256_add_ps, _mm256_and_ps, _mm256_and_si256,
    _mm256_castps_si256, _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmp_ps, _mm256_cvtepu16_epi32,
    _mm256_cvtph_ps, _mm256_cvtps_ph, _mm256_fmadd_ps, _mm256_fmsub_ps, _mm256_loadu_ps, _mm256_loadu_si256,
    _mm256_max_ps, _mm256_movemask_ps, _mm256_packus_epi32, _mm256_permute4x64_epi64, _mm256_set1_epi32,
    _mm256_set1_ps, _mm256_slli_epi32, _mm256_srli_epi32, _mm256_storeu_ps, _mm256_storeu_si256, _mm256_stream_ps,
    _mm256_stream_si256, _mm256_sub_ps, _mm512_add_epi32, _mm512_add_ps, _mm512_and_si512, _mm512_castps_si512,
    _mm512_castsi512_ps, _mm512_cmp_ps_mask, _mm512_cvtepi32_epi16, _mm512_cvtepu16_epi32, _mm512_cvtph_ps,
    _mm512_cvtps_ph, _mm512_fmadd_ps, _mm512_fmsub_ps, _mm512_loadu_ps, _mm512_max_ps, _mm512_mul_ps,
    _mm512_roundscale_ps, _mm512_scalef_ps, _mm512_set1_epi32, _mm512_set1_ps, _mm512_slli_epi32, _mm512_srli_epi32,
    _mm512_storeu_ps, _mm512_stream_ps,
};

/// An instruction set that a kernel can run on. One that the processor lacks is never made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isa {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Isa {
    /// Those of this processor, the fastest first.
    pub(super) fn available() -> Vec<Self> {
        let mut found = Vec::with_capacity(3);
        #[cfg(target_arch = "x86_64")]
        {
            if std::arch::is_x86_feature_detected!("avx512f") {
                found.push(Self::Avx512);
            }
            if ["avx2", "fma", "f16c"].iter().all(|name| crate::cpu::features().contains(name)) {
                found.push(Self::Avx2);
            }
        }
        found.push(Self::Portable);
        found
    }

    /// The fastest of this processor.
    pub(super) fn best() -> Self {
        Self::available()[0]
    }
}

/// Most lanes that a vector has.
pub(super) const MOST_LANES: usize = 16;

/// A vector of f32 and what is done with it.
///
/// # Safety
/// Every function may be called only where the processor has the instruction set, with addresses of [`Simd::N`]
/// entries; `stream` also wants them aligned to the whole vector, and a [`Simd::fence`] before another thread looks.
pub(super) trait Simd {
    type V: Copy;
    /// Number of lanes.
    const N: usize;
    /// [`Simd::exp`] is exactly 0 here and below.
    const LOW: f32;

    unsafe fn splat(x: f32) -> Self::V;
    unsafe fn load(from: *const f32) -> Self::V;
    unsafe fn load_bf16(from: *const u16) -> Self::V;
    unsafe fn load_f16(from: *const u16) -> Self::V;
    unsafe fn store(to: *mut f32, v: Self::V);
    unsafe fn store_bf16(to: *mut u16, v: Self::V);
    unsafe fn store_f16(to: *mut u16, v: Self::V);
    unsafe fn stream(to: *mut f32, v: Self::V);
    unsafe fn stream_bf16(to: *mut u16, v: Self::V);
    unsafe fn stream_f16(to: *mut u16, v: Self::V);
    /// After it, other threads see what was streamed before.
    unsafe fn fence();
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V;
    /// `a * b + c`, rounded once where the set can.
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V;
    /// The larger; `b` where one of them is NaN.
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V;
    /// Whether a lane of `v` exceeds that of `limit`.
    unsafe fn any_above(v: Self::V, limit: Self::V) -> bool;
    /// `e^d` for `d` between [`Simd::LOW`] and 88, to some 2e-7 of it, and exactly 1 for 0.
    unsafe fn exp(d: Self::V) -> Self::V;

    /// `2^f` for `f` between -1/2 and 1/2: of the polynomials of degree 5 that are exact at 0, the nearest in relative error,
    /// 9.1e-8.
    #[inline(always)]
    unsafe fn exp2(f: Self::V) -> Self::V {
        #[allow(clippy::approx_constant, reason = "near ln 2, and not it")]
        const C: [f32; 6] = [1.0, 0.693_147, 0.240_222_42, 0.055_507_336, 0.009_671_513, 0.001_326_472_7];
        // SAFETY: as of the trait.
        unsafe {
            let mut p = Self::splat(C[5]);
            p = Self::fma(p, f, Self::splat(C[4]));
            p = Self::fma(p, f, Self::splat(C[3]));
            p = Self::fma(p, f, Self::splat(C[2]));
            p = Self::fma(p, f, Self::splat(C[1]));
            Self::fma(p, f, Self::splat(C[0]))
        }
    }

    /// The lanes, the rest of the array 0.
    #[inline(always)]
    unsafe fn lanes(v: Self::V) -> [f32; MOST_LANES] {
        let mut lanes = [0.0; MOST_LANES];
        // SAFETY: as of the trait; the array holds `N` entries or more.
        unsafe { Self::store(lanes.as_mut_ptr(), v) };
        lanes
    }
}

const LOG2_E: f32 = std::f32::consts::LOG2_E;
/// Added to a small number and taken off again, it leaves the nearest integer; in between the low bits hold it.
const ROUNDER: f32 = 12_582_912.0;
/// What turns the upper half of an f32's bits into the nearest bf16, with the last kept bit added: ties go to even.
const HALF_BF16: i32 = 0x7fff;

/// Methods whose whole body is unsafe for the reason that the trait states.
macro_rules! intrinsics {
    ($(fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $body:expr;)*) => {$(
        #[inline(always)]
        unsafe fn $name($($argument: $type),*) $(-> $result)? {
            // SAFETY: as of the trait.
            unsafe { $body }
        }
    )*};
}

#[cfg(target_arch = "x86_64")]
pub(super) struct Avx512;

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    intrinsics! {
        fn bf16(v: __m512) -> __m256i = {
            let bits = _mm512_castps_si512(v);
            let odd = _mm512_and_si512(_mm512_srli_epi32::<16>(bits), _mm512_set1_epi32(1));
            let rounded = _mm512_add_epi32(bits, _mm512_add_epi32(odd, _mm512_set1_epi32(HALF_BF16)));
            _mm512_cvtepi32_epi16(_mm512_srli_epi32::<16>(rounded))
        };
    }
}

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    type V = __m512;
    const N: usize = 16;
    const LOW: f32 = -105.0;

    intrinsics! {
        fn splat(x: f32) -> __m512 = _mm512_set1_ps(x);
        fn load(from: *const f32) -> __m512 = _mm512_loadu_ps(from);
        fn load_bf16(from: *const u16) -> __m512 =
            _mm512_castsi512_ps(_mm512_slli_epi32::<16>(_mm512_cvtepu16_epi32(_mm256_loadu_si256(from.cast()))));
        fn load_f16(from: *const u16) -> __m512 = _mm512_cvtph_ps(_mm256_loadu_si256(from.cast()));
        fn store(to: *mut f32, v: __m512) = _mm512_storeu_ps(to, v);
        fn store_bf16(to: *mut u16, v: __m512) = _mm256_storeu_si256(to.cast(), Self::bf16(v));
        fn store_f16(to: *mut u16, v: __m512) =
            _mm256_storeu_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v));
        fn stream(to: *mut f32, v: __m512) = _mm512_stream_ps(to, v);
        fn stream_bf16(to: *mut u16, v: __m512) = _mm256_stream_si256(to.cast(), Self::bf16(v));
        fn stream_f16(to: *mut u16, v: __m512) =
            _mm256_stream_si256(to.cast(), _mm512_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v));
        fn fence() = _mm_sfence();
        fn add(a: __m512, b: __m512) -> __m512 = _mm512_add_ps(a, b);
        fn fma(a: __m512, b: __m512, c: __m512) -> __m512 = _mm512_fmadd_ps(a, b, c);
        fn max(a: __m512, b: __m512) -> __m512 = _mm512_max_ps(a, b);
        fn any_above(v: __m512, limit: __m512) -> bool = _mm512_cmp_ps_mask::<_CMP_GT_OQ>(v, limit) != 0;
        fn exp(d: __m512) -> __m512 = {
            let n = _mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(
                _mm512_mul_ps(d, _mm512_set1_ps(LOG2_E)),
            );
            let f = _mm512_fmsub_ps(d, _mm512_set1_ps(LOG2_E), n);
            _mm512_scalef_ps(Self::exp2(f), n)
        };
    }
}

#[cfg(target_arch = "x86_64")]
pub(super) struct Avx2;

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    intrinsics! {
        fn bf16(v: __m256) -> __m128i = {
            let bits = _mm256_castps_si256(v);
            let odd = _mm256_and_si256(_mm256_srli_epi32::<16>(bits), _mm256_set1_epi32(1));
            let rounded = _mm256_add_epi32(bits, _mm256_add_epi32(odd, _mm256_set1_epi32(HALF_BF16)));
            let upper = _mm256_srli_epi32::<16>(rounded);
            _mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b1000>(_mm256_packus_epi32(upper, upper)))
        };
    }
}

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    type V = __m256;
    const N: usize = 8;
    const LOW: f32 = -87.0;

    intrinsics! {
        fn splat(x: f32) -> __m256 = _mm256_set1_ps(x);
        fn load(from: *const f32) -> __m256 = _mm256_loadu_ps(from);
        fn load_bf16(from: *const u16) -> __m256 =
            _mm256_castsi256_ps(_mm256_slli_epi32::<16>(_mm256_cvtepu16_epi32(_mm_loadu_si128(from.cast()))));
        fn load_f16(from: *const u16) -> __m256 = _mm256_cvtph_ps(_mm_loadu_si128(from.cast()));
        fn store(to: *mut f32, v: __m256) = _mm256_storeu_ps(to, v);
        fn store_bf16(to: *mut u16, v: __m256) = _mm_storeu_si128(to.cast(), Self::bf16(v));
        fn store_f16(to: *mut u16, v: __m256) =
            _mm_storeu_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v));
        fn stream(to: *mut f32, v: __m256) = _mm256_stream_ps(to, v);
        fn stream_bf16(to: *mut u16, v: __m256) = _mm_stream_si128(to.cast(), Self::bf16(v));
        fn stream_f16(to: *mut u16, v: __m256) =
            _mm_stream_si128(to.cast(), _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(v));
        fn fence() = _mm_sfence();
        fn add(a: __m256, b: __m256) -> __m256 = _mm256_add_ps(a, b);
        fn fma(a: __m256, b: __m256, c: __m256) -> __m256 = _mm256_fmadd_ps(a, b, c);
        fn max(a: __m256, b: __m256) -> __m256 = _mm256_max_ps(a, b);
        fn any_above(v: __m256, limit: __m256) -> bool =
            _mm256_movemask_ps(_mm256_cmp_ps::<_CMP_GT_OQ>(v, limit)) != 0;
        fn exp(d: __m256) -> __m256 = {
            let shifted = _mm256_fmadd_ps(d, _mm256_set1_ps(LOG2_E), _mm256_set1_ps(ROUNDER));
            let n = _mm256_sub_ps(shifted, _mm256_set1_ps(ROUNDER));
            let f = _mm256_fmsub_ps(d, _mm256_set1_ps(LOG2_E), n);
            let exponent = _mm256_slli_epi32::<23>(_mm256_castps_si256(shifted));
            let e = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(Self::exp2(f)), exponent));
            _mm256_and_ps(e, _mm256_cmp_ps::<_CMP_GT_OQ>(d, _mm256_set1_ps(Self::LOW)))
        };
    }
}

/// Any other processor; also the plain form in which the other two can be read.
pub(super) struct Portable;

const PORTABLE: usize = 8;

/// The same expression of every lane.
macro_rules! each {
    ($lane:ident => $value:expr) => {{
        let mut result = [Default::default(); PORTABLE];
        for $lane in 0..PORTABLE {
            result[$lane] = $value;
        }
        result
    }};
}

impl Simd for Portable {
    type V = [f32; PORTABLE];
    const N: usize = PORTABLE;
    const LOW: f32 = -87.0;

    intrinsics! {
        fn load(from: *const f32) -> Self::V = from.cast::<Self::V>().read_unaligned();
        fn load_bf16(from: *const u16) -> Self::V = each!(i => widen_bf16(from.add(i).read()));
        fn load_f16(from: *const u16) -> Self::V = each!(i => widen_f16(from.add(i).read()));
        fn store(to: *mut f32, v: Self::V) = to.cast::<Self::V>().write_unaligned(v);
        fn store_bf16(to: *mut u16, v: Self::V) =
            to.cast::<[u16; PORTABLE]>().write_unaligned(each!(i => narrow_bf16(v[i])));
        fn store_f16(to: *mut u16, v: Self::V) =
            to.cast::<[u16; PORTABLE]>().write_unaligned(each!(i => narrow_f16(v[i])));
        fn stream(to: *mut f32, v: Self::V) = Self::store(to, v);
        fn stream_bf16(to: *mut u16, v: Self::V) = Self::store_bf16(to, v);
        fn stream_f16(to: *mut u16, v: Self::V) = Self::store_f16(to, v);
    }

    #[inline(always)]
    unsafe fn fence() {}
    #[inline(always)]
    unsafe fn splat(x: f32) -> Self::V {
        [x; PORTABLE]
    }
    #[inline(always)]
    unsafe fn add(a: Self::V, b: Self::V) -> Self::V {
        each!(i => a[i] + b[i])
    }
    #[inline(always)]
    unsafe fn fma(a: Self::V, b: Self::V, c: Self::V) -> Self::V {
        // Without the instruction `mul_add` is a call into the library of mathematics, a hundred times slower.
        each!(i => a[i] * b[i] + c[i])
    }
    #[inline(always)]
    unsafe fn max(a: Self::V, b: Self::V) -> Self::V {
        each!(i => if a[i] > b[i] { a[i] } else { b[i] })
    }
    #[inline(always)]
    unsafe fn any_above(v: Self::V, limit: Self::V) -> bool {
        (0..PORTABLE).any(|i| v[i] > limit[i])
    }
    #[inline(always)]
    unsafe fn exp(d: Self::V) -> Self::V {
        // Without a fused product the integer part is taken off in two steps, the first of them exact.
        const LN_2: [f32; 2] = [0.693_359_4, -2.121_944_4e-4];
        let shifted: Self::V = each!(i => d[i] * LOG2_E + ROUNDER);
        let n: Self::V = each!(i => shifted[i] - ROUNDER);
        // SAFETY: as of the trait.
        let p = unsafe { Self::exp2(each!(i => ((d[i] - n[i] * LN_2[0]) - n[i] * LN_2[1]) * LOG2_E)) };
        each!(i => if d[i] > Self::LOW { f32::from_bits(p[i].to_bits().wrapping_add(shifted[i].to_bits() << 23)) } else { 0.0 })
    }
}

/// A function over an instruction set and the arguments of a kernel, which it runs compiled for that set.
macro_rules! dispatched {
    ($(#[$doc:meta])* fn $name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)? = $kernel:ident) => {
        $(#[$doc])*
        fn $name<E: Logit>(isa: Isa, $($argument: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f")]
            fn avx512<E: Logit>($($argument: $type),*) $(-> $result)? {
                // SAFETY: the function is called only where the set is.
                unsafe { $kernel::<Avx512, E>($($argument),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma,f16c")]
            fn avx2<E: Logit>($($argument: $type),*) $(-> $result)? {
                // SAFETY: the function is called only where the sets are.
                unsafe { $kernel::<Avx2, E>($($argument),*) }
            }
            match isa {
                // SAFETY: an `Isa` is made only where the processor has it.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => unsafe { avx512($($argument),*) },
                // SAFETY: an `Isa` is made only where the processor has it.
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => unsafe { avx2($($argument),*) },
                // SAFETY: it needs no set.
                Isa::Portable => unsafe { $kernel::<Portable, E>($($argument),*) },
            }
        }
    };
}
pub(super) use dispatched;

/// What a logit may be stored as. Arithmetic is in f32.
pub trait Logit: Copy + Default + Send + Sync + private::Lanes {
    /// The value as f32, exactly.
    fn widen(self) -> f32;
    /// The nearest value, ties to even.
    fn narrow(x: f32) -> Self;
}

/// bfloat16, by its bits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(transparent)]
pub struct Bf16(pub u16);

/// IEEE 754 half precision, by its bits.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
#[repr(transparent)]
pub struct F16(pub u16);

pub(super) mod private {
    /// How a vector of the type is read and written.
    #[allow(private_interfaces, private_bounds, reason = "sealed: the kernels alone call it")]
    pub trait Lanes: Sized {
        /// # Safety
        /// As of [`super::Simd`].
        unsafe fn load<S: super::Simd>(from: *const Self) -> S::V;
        /// # Safety
        /// As of [`super::Simd`], with its promises about streams where `STREAM`.
        unsafe fn store<S: super::Simd, const STREAM: bool>(to: *mut Self, v: S::V);
    }
}

/// The same memory under another name, both ways.
macro_rules! half {
    ($type:ident) => {
        impl $type {
            /// Numbers that come as their bits.
            pub fn of(bits: &[u16]) -> &[Self] {
                // SAFETY: the type is its bits, and transparent.
                unsafe { std::slice::from_raw_parts(bits.as_ptr().cast(), bits.len()) }
            }

            /// Numbers that are to be written as their bits.
            pub fn of_mut(bits: &mut [u16]) -> &mut [Self] {
                // SAFETY: the type is its bits, and transparent.
                unsafe { std::slice::from_raw_parts_mut(bits.as_mut_ptr().cast(), bits.len()) }
            }
        }
    };
}
half!(Bf16);
half!(F16);

macro_rules! logit {
    ($type:ty, $load:ident, $store:ident, $stream:ident, $widen:expr, $narrow:expr) => {
        impl Logit for $type {
            #[inline]
            fn widen(self) -> f32 {
                $widen(self)
            }
            #[inline]
            fn narrow(x: f32) -> Self {
                $narrow(x)
            }
        }

        #[allow(private_interfaces, private_bounds, reason = "sealed: the kernels alone call it")]
        impl private::Lanes for $type {
            #[inline(always)]
            unsafe fn load<S: Simd>(from: *const Self) -> S::V {
                // SAFETY: as of the trait; the type is its bits.
                unsafe { S::$load(from.cast()) }
            }
            #[inline(always)]
            unsafe fn store<S: Simd, const STREAM: bool>(to: *mut Self, v: S::V) {
                // SAFETY: as of the trait; the type is its bits.
                unsafe {
                    if STREAM {
                        S::$stream(to.cast(), v);
                    } else {
                        S::$store(to.cast(), v);
                    }
                }
            }
        }
    };
}
logit!(f32, load, store, stream, std::convert::identity, std::convert::identity);
logit!(Bf16, load_bf16, store_bf16, stream_bf16, |x: Bf16| widen_bf16(x.0), |x| Bf16(narrow_bf16(x)));
logit!(F16, load_f16, store_f16, stream_f16, |x: F16| widen_f16(x.0), |x| F16(narrow_f16(x)));

#[inline(always)]
fn widen_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

#[inline(always)]
fn narrow_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    if x.is_nan() {
        return (bits >> 16) as u16 | 0x40;
    }
    ((bits + (bits >> 16 & 1) + HALF_BF16 as u32) >> 16) as u16
}

fn widen_f16(bits: u16) -> f32 {
    let (sign, rest) = (u32::from(bits & 0x8000) << 16, u32::from(bits & 0x7fff));
    let value = match rest >> 10 {
        // Below the normal numbers: a count of 2^-24.
        0 => rest as f32 * f32::from_bits(0x3380_0000),
        31 => f32::from_bits(0x7f80_0000 | (rest & 0x3ff) << 13),
        _ => f32::from_bits((rest << 13) + (112 << 23)),
    };
    f32::from_bits(value.to_bits() | sign)
}

fn narrow_f16(x: f32) -> u16 {
    let (sign, size) = ((x.to_bits() >> 16 & 0x8000) as u16, x.to_bits() & 0x7fff_ffff);
    sign | match size {
        0x7f80_0001.. => 0x7e00,
        // 65520, the first that rounds beyond the largest.
        0x477f_f000.. => 0x7c00,
        0x3880_0000.. => ((size + (size >> 13 & 1) + 0xfff - (112 << 23)) >> 13) as u16,
        // Below the normal numbers: a sum with 1/2 rounds to a count of 2^-24 in its low bits.
        _ => ((f32::from_bits(size) + 0.5).to_bits() - 0.5f32.to_bits()) as u16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_go_to_f32_and_back() {
        for bits in 0..=u16::MAX {
            let x = widen_f16(bits);
            if x.is_nan() {
                assert!(widen_f16(narrow_f16(x)).is_nan());
            } else {
                assert_eq!(narrow_f16(x), bits);
            }
            let x = widen_bf16(bits);
            if x.is_nan() {
                assert!(widen_bf16(narrow_bf16(x)).is_nan());
            } else {
                assert_eq!(narrow_bf16(x), bits);
            }
        }
    }

    #[test]
    fn halves_are_the_nearest_and_even_where_two_are() {
        for bits in (0..0x7bffu16).chain(0x8000..0xfbff) {
            let (low, high) = (widen_f16(bits), widen_f16(bits + 1));
            let middle = f32::midpoint(low, high);
            assert_eq!(narrow_f16(middle), bits + (bits & 1), "{bits:x}");
            assert_eq!(narrow_f16(f32::from_bits(middle.to_bits() - 1)), bits);
            assert_eq!(narrow_f16(f32::from_bits(middle.to_bits() + 1)), bits + 1);
        }
        assert_eq!(narrow_f16(65519.0), 0x7bff);
        assert_eq!(narrow_f16(-65520.0), 0xfc00);
    }

    fn exp_of<S: Simd>() {
        // SAFETY: the caller looked for the set, and the array holds 16 entries.
        unsafe {
            assert_eq!(S::lanes(S::exp(S::splat(S::LOW)))[0], 0.0);
            assert_eq!(S::lanes(S::exp(S::splat(0.0)))[0], 1.0);
            for step in 0..200_000 {
                let d = S::LOW.max(-87.0) + 1e-3 + step as f32 * (88.0 - 1.0 + 24.0) / 200_000.0;
                let (found, exact) = (f64::from(S::lanes(S::exp(S::splat(d)))[0]), f64::from(d).exp());
                // `LOG2_E` itself is rounded.
                let allowed = 3e-7 + 2e-8 * f64::from(d.abs());
                assert!((found / exact - 1.0).abs() < allowed, "exp({d}) is {found}, expected {exact}");
            }
        }
    }

    #[test]
    fn exp_is_near() {
        for isa in Isa::available() {
            match isa {
                #[cfg(target_arch = "x86_64")]
                Isa::Avx512 => exp_of::<Avx512>(),
                #[cfg(target_arch = "x86_64")]
                Isa::Avx2 => exp_of::<Avx2>(),
                Isa::Portable => exp_of::<Portable>(),
            }
        }
    }
}
