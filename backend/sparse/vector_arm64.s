#include "textflag.h"

// Go's assembler has no names for these instructions on four float32 elements.
#define FMUL(m, n, d) WORD $(0x6E20DC00 | (m)<<16 | (n)<<5 | (d))
#define FADD(m, n, d) WORD $(0x4E20D400 | (m)<<16 | (n)<<5 | (d))
#define FSUB(m, n, d) WORD $(0x4EA0D400 | (m)<<16 | (n)<<5 | (d))
#define FADDP(m, n, d) WORD $(0x6E20D400 | (m)<<16 | (n)<<5 | (d))
#define FMAX(m, n, d) WORD $(0x4E20F400 | (m)<<16 | (n)<<5 | (d))
#define FCMGE(m, n, d) WORD $(0x6E20E400 | (m)<<16 | (n)<<5 | (d))

// FCVTL and FCVTL2 convert the lower and the upper four float16 elements of V(n) to float32.
#define FCVTL(n, d) WORD $(0x0E217800 | (n)<<5 | (d))
#define FCVTL2(n, d) WORD $(0x4E217800 | (n)<<5 | (d))

// Constants of the exponential function, as in plain.go.
DATA expConstants<>+0(SB)/4, $-87.0
DATA expConstants<>+4(SB)/4, $1.44269504088896341
DATA expConstants<>+8(SB)/4, $12582912.0
DATA expConstants<>+12(SB)/4, $0.693359375
DATA expConstants<>+16(SB)/4, $-2.12194440e-4
DATA expConstants<>+20(SB)/4, $0.00138888888888888889
DATA expConstants<>+24(SB)/4, $0.00833333333333333333
DATA expConstants<>+28(SB)/4, $0.0416666666666666667
DATA expConstants<>+32(SB)/4, $0.166666666666666667
DATA expConstants<>+36(SB)/4, $0.5
DATA expConstants<>+40(SB)/4, $1.0
GLOBL expConstants<>(SB), RODATA, $44

// The bit of each byte in its mask.
DATA bitOf<>+0(SB)/8, $0x8040201008040201
DATA bitOf<>+8(SB)/8, $0x8040201008040201
GLOBL bitOf<>(SB), RODATA, $16

// ROW computes the address of the row with the next index.
#define ROW(reg) \
	MOVW.P 4(R5), reg; \
	MADD   R3, R2, reg, reg

// ZERO sets a register to zero.
#define ZERO(v) VEOR v.B16, v.B16, v.B16

// REDUCE adds up the eight lanes of V0 and V1, V2 and V3, V4 and V5, V6 and V7, and stores the four
// sums.
#define REDUCE \
	FADDP(2, 0, 0); \
	FADDP(6, 4, 4); \
	FADDP(4, 0, 0); \
	FADDP(3, 1, 1); \
	FADDP(7, 5, 5); \
	FADDP(5, 1, 1); \
	FADD(1, 0, 0); \
	VST1.P [V0.S4], 16(R0)

// CLEAR8 sets the first eight accumulators to zero.
#define CLEAR8 \
	ZERO(V0); \
	ZERO(V1); \
	ZERO(V2); \
	ZERO(V3); \
	ZERO(V4); \
	ZERO(V5); \
	ZERO(V6); \
	ZERO(V7)

// func dotRows32(dst, q, keys *float32, stride, dim int, indices *int32, n int)
TEXT ·dotRows32(SB), NOSPLIT, $0-56
	MOVD dst+0(FP), R0
	MOVD q+8(FP), R1
	MOVD keys+16(FP), R2
	MOVD stride+24(FP), R3
	MOVD dim+32(FP), R4
	MOVD indices+40(FP), R5
	MOVD n+48(FP), R6
	LSL  $2, R3, R3

group:
	ROW(R8)
	ROW(R9)
	ROW(R10)
	ROW(R11)
	MOVD R1, R12
	MOVD R4, R13
	CLEAR8

chunk:
	VLD1.P 32(R12), [V16.S4, V17.S4]
	VLD1.P 32(R8), [V18.S4, V19.S4]
	FMUL(18, 16, 18)
	FMUL(19, 17, 19)
	FADD(18, 0, 0)
	FADD(19, 1, 1)
	VLD1.P 32(R9), [V18.S4, V19.S4]
	FMUL(18, 16, 18)
	FMUL(19, 17, 19)
	FADD(18, 2, 2)
	FADD(19, 3, 3)
	VLD1.P 32(R10), [V18.S4, V19.S4]
	FMUL(18, 16, 18)
	FMUL(19, 17, 19)
	FADD(18, 4, 4)
	FADD(19, 5, 5)
	VLD1.P 32(R11), [V18.S4, V19.S4]
	FMUL(18, 16, 18)
	FMUL(19, 17, 19)
	FADD(18, 6, 6)
	FADD(19, 7, 7)
	SUBS $8, R13
	BNE  chunk

	REDUCE
	SUBS $4, R6
	BNE  group
	RET

// func dotRows16(dst, q *float32, keys *uint16, stride, dim int, indices *int32, n int)
TEXT ·dotRows16(SB), NOSPLIT, $0-56
	MOVD dst+0(FP), R0
	MOVD q+8(FP), R1
	MOVD keys+16(FP), R2
	MOVD stride+24(FP), R3
	MOVD dim+32(FP), R4
	MOVD indices+40(FP), R5
	MOVD n+48(FP), R6
	LSL  $1, R3, R3

group:
	ROW(R8)
	ROW(R9)
	ROW(R10)
	ROW(R11)
	MOVD R1, R12
	MOVD R4, R13
	CLEAR8

chunk:
	VLD1.P 32(R12), [V16.S4, V17.S4]
	VLD1.P 16(R8), [V20.H8]
	FCVTL(20, 18)
	FCVTL2(20, 19)
	FMUL(18, 16, 18)
	FMUL(19, 17, 19)
	FADD(18, 0, 0)
	FADD(19, 1, 1)
	VLD1.P 16(R9), [V20.H8]
	FCVTL(20, 18)
	FCVTL2(20, 19)
	FMUL(18, 16, 18)
	FMUL(19, 17, 19)
	FADD(18, 2, 2)
	FADD(19, 3, 3)
	VLD1.P 16(R10), [V20.H8]
	FCVTL(20, 18)
	FCVTL2(20, 19)
	FMUL(18, 16, 18)
	FMUL(19, 17, 19)
	FADD(18, 4, 4)
	FADD(19, 5, 5)
	VLD1.P 16(R11), [V20.H8]
	FCVTL(20, 18)
	FCVTL2(20, 19)
	FMUL(18, 16, 18)
	FMUL(19, 17, 19)
	FADD(18, 6, 6)
	FADD(19, 7, 7)
	SUBS $8, R13
	BNE  chunk

	REDUCE
	SUBS $4, R6
	BNE  group
	RET

// func addRows32(out, weights, values *float32, stride, dim int, indices *int32, n int)
TEXT ·addRows32(SB), NOSPLIT, $0-56
	MOVD out+0(FP), R0
	MOVD weights+8(FP), R1
	MOVD values+16(FP), R2
	MOVD stride+24(FP), R3
	MOVD dim+32(FP), R4
	MOVD indices+40(FP), R15
	MOVD n+48(FP), R6
	LSL  $2, R3, R3

columns64:
	CMP  $64, R4
	BLT  columns32
	CLEAR8
	ZERO(V8)
	ZERO(V9)
	ZERO(V10)
	ZERO(V11)
	ZERO(V12)
	ZERO(V13)
	ZERO(V14)
	ZERO(V15)
	MOVD R15, R5
	MOVD R1, R12
	MOVD R6, R13

row64:
	ROW(R8)
	VLD1R.P 4(R12), [V24.S4]
	VLD1.P 32(R8), [V16.S4, V17.S4]
	FMUL(16, 24, 16)
	FMUL(17, 24, 17)
	FADD(16, 0, 0)
	FADD(17, 1, 1)
	VLD1.P 32(R8), [V18.S4, V19.S4]
	FMUL(18, 24, 18)
	FMUL(19, 24, 19)
	FADD(18, 2, 2)
	FADD(19, 3, 3)
	VLD1.P 32(R8), [V20.S4, V21.S4]
	FMUL(20, 24, 20)
	FMUL(21, 24, 21)
	FADD(20, 4, 4)
	FADD(21, 5, 5)
	VLD1.P 32(R8), [V22.S4, V23.S4]
	FMUL(22, 24, 22)
	FMUL(23, 24, 23)
	FADD(22, 6, 6)
	FADD(23, 7, 7)
	VLD1.P 32(R8), [V16.S4, V17.S4]
	FMUL(16, 24, 16)
	FMUL(17, 24, 17)
	FADD(16, 8, 8)
	FADD(17, 9, 9)
	VLD1.P 32(R8), [V18.S4, V19.S4]
	FMUL(18, 24, 18)
	FMUL(19, 24, 19)
	FADD(18, 10, 10)
	FADD(19, 11, 11)
	VLD1.P 32(R8), [V20.S4, V21.S4]
	FMUL(20, 24, 20)
	FMUL(21, 24, 21)
	FADD(20, 12, 12)
	FADD(21, 13, 13)
	VLD1.P 32(R8), [V22.S4, V23.S4]
	FMUL(22, 24, 22)
	FMUL(23, 24, 23)
	FADD(22, 14, 14)
	FADD(23, 15, 15)
	SUBS $1, R13
	BNE  row64
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R0)
	VST1.P [V8.S4, V9.S4, V10.S4, V11.S4], 64(R0)
	VST1.P [V12.S4, V13.S4, V14.S4, V15.S4], 64(R0)
	ADD  $256, R2, R2
	SUB  $64, R4, R4
	JMP  columns64

columns32:
	CMP  $32, R4
	BLT  columns8
	CLEAR8
	MOVD R15, R5
	MOVD R1, R12
	MOVD R6, R13

row32:
	ROW(R8)
	VLD1R.P 4(R12), [V24.S4]
	VLD1.P 32(R8), [V16.S4, V17.S4]
	FMUL(16, 24, 16)
	FMUL(17, 24, 17)
	FADD(16, 0, 0)
	FADD(17, 1, 1)
	VLD1.P 32(R8), [V18.S4, V19.S4]
	FMUL(18, 24, 18)
	FMUL(19, 24, 19)
	FADD(18, 2, 2)
	FADD(19, 3, 3)
	VLD1.P 32(R8), [V20.S4, V21.S4]
	FMUL(20, 24, 20)
	FMUL(21, 24, 21)
	FADD(20, 4, 4)
	FADD(21, 5, 5)
	VLD1.P 32(R8), [V22.S4, V23.S4]
	FMUL(22, 24, 22)
	FMUL(23, 24, 23)
	FADD(22, 6, 6)
	FADD(23, 7, 7)
	SUBS $1, R13
	BNE  row32
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R0)
	ADD  $128, R2, R2
	SUB  $32, R4, R4
	JMP  columns32

columns8:
	CMP  $8, R4
	BLT  done
	ZERO(V0)
	ZERO(V1)
	MOVD R15, R5
	MOVD R1, R12
	MOVD R6, R13

row8:
	ROW(R8)
	VLD1R.P 4(R12), [V24.S4]
	VLD1.P 32(R8), [V16.S4, V17.S4]
	FMUL(16, 24, 16)
	FMUL(17, 24, 17)
	FADD(16, 0, 0)
	FADD(17, 1, 1)
	SUBS $1, R13
	BNE  row8
	VST1.P [V0.S4, V1.S4], 32(R0)
	ADD  $32, R2, R2
	SUB  $8, R4, R4
	JMP  columns8

done:
	RET

// func addRows16(out, weights *float32, values *uint16, stride, dim int, indices *int32, n int)
TEXT ·addRows16(SB), NOSPLIT, $0-56
	MOVD out+0(FP), R0
	MOVD weights+8(FP), R1
	MOVD values+16(FP), R2
	MOVD stride+24(FP), R3
	MOVD dim+32(FP), R4
	MOVD indices+40(FP), R15
	MOVD n+48(FP), R6
	LSL  $1, R3, R3

columns64:
	CMP  $64, R4
	BLT  columns32
	CLEAR8
	ZERO(V8)
	ZERO(V9)
	ZERO(V10)
	ZERO(V11)
	ZERO(V12)
	ZERO(V13)
	ZERO(V14)
	ZERO(V15)
	MOVD R15, R5
	MOVD R1, R12
	MOVD R6, R13

row64:
	ROW(R8)
	VLD1R.P 4(R12), [V24.S4]
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 16)
	FCVTL2(25, 17)
	FMUL(16, 24, 16)
	FMUL(17, 24, 17)
	FADD(16, 0, 0)
	FADD(17, 1, 1)
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 18)
	FCVTL2(25, 19)
	FMUL(18, 24, 18)
	FMUL(19, 24, 19)
	FADD(18, 2, 2)
	FADD(19, 3, 3)
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 20)
	FCVTL2(25, 21)
	FMUL(20, 24, 20)
	FMUL(21, 24, 21)
	FADD(20, 4, 4)
	FADD(21, 5, 5)
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 22)
	FCVTL2(25, 23)
	FMUL(22, 24, 22)
	FMUL(23, 24, 23)
	FADD(22, 6, 6)
	FADD(23, 7, 7)
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 16)
	FCVTL2(25, 17)
	FMUL(16, 24, 16)
	FMUL(17, 24, 17)
	FADD(16, 8, 8)
	FADD(17, 9, 9)
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 18)
	FCVTL2(25, 19)
	FMUL(18, 24, 18)
	FMUL(19, 24, 19)
	FADD(18, 10, 10)
	FADD(19, 11, 11)
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 20)
	FCVTL2(25, 21)
	FMUL(20, 24, 20)
	FMUL(21, 24, 21)
	FADD(20, 12, 12)
	FADD(21, 13, 13)
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 22)
	FCVTL2(25, 23)
	FMUL(22, 24, 22)
	FMUL(23, 24, 23)
	FADD(22, 14, 14)
	FADD(23, 15, 15)
	SUBS $1, R13
	BNE  row64
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R0)
	VST1.P [V8.S4, V9.S4, V10.S4, V11.S4], 64(R0)
	VST1.P [V12.S4, V13.S4, V14.S4, V15.S4], 64(R0)
	ADD  $128, R2, R2
	SUB  $64, R4, R4
	JMP  columns64

columns32:
	CMP  $32, R4
	BLT  columns8
	CLEAR8
	MOVD R15, R5
	MOVD R1, R12
	MOVD R6, R13

row32:
	ROW(R8)
	VLD1R.P 4(R12), [V24.S4]
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 16)
	FCVTL2(25, 17)
	FMUL(16, 24, 16)
	FMUL(17, 24, 17)
	FADD(16, 0, 0)
	FADD(17, 1, 1)
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 18)
	FCVTL2(25, 19)
	FMUL(18, 24, 18)
	FMUL(19, 24, 19)
	FADD(18, 2, 2)
	FADD(19, 3, 3)
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 20)
	FCVTL2(25, 21)
	FMUL(20, 24, 20)
	FMUL(21, 24, 21)
	FADD(20, 4, 4)
	FADD(21, 5, 5)
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 22)
	FCVTL2(25, 23)
	FMUL(22, 24, 22)
	FMUL(23, 24, 23)
	FADD(22, 6, 6)
	FADD(23, 7, 7)
	SUBS $1, R13
	BNE  row32
	VST1.P [V0.S4, V1.S4, V2.S4, V3.S4], 64(R0)
	VST1.P [V4.S4, V5.S4, V6.S4, V7.S4], 64(R0)
	ADD  $64, R2, R2
	SUB  $32, R4, R4
	JMP  columns32

columns8:
	CMP  $8, R4
	BLT  done
	ZERO(V0)
	ZERO(V1)
	MOVD R15, R5
	MOVD R1, R12
	MOVD R6, R13

row8:
	ROW(R8)
	VLD1R.P 4(R12), [V24.S4]
	VLD1.P 16(R8), [V25.H8]
	FCVTL(25, 16)
	FCVTL2(25, 17)
	FMUL(16, 24, 16)
	FMUL(17, 24, 17)
	FADD(16, 0, 0)
	FADD(17, 1, 1)
	SUBS $1, R13
	BNE  row8
	VST1.P [V0.S4, V1.S4], 32(R0)
	ADD  $16, R2, R2
	SUB  $8, R4, R4
	JMP  columns8

done:
	RET

// BROADCAST copies a constant to the four lanes of a register.
#define BROADCAST(v) VLD1R.P 4(R2), [v.S4]

// STEP multiplies the polynomials V18 and V19 by r and adds a coefficient.
#define STEP(c) \
	FMUL(16, 18, 18); \
	FMUL(17, 19, 19); \
	FADD(c, 18, 18); \
	FADD(c, 19, 19)

// func exponentials32(w *float32, n int, top, scale float32) float32
//
// V0 and V1 hold the partial sums, and V2 to V14 hold constants.
TEXT ·exponentials32(SB), NOSPLIT, $0-28
	MOVD w+0(FP), R0
	MOVD n+8(FP), R1
	ZERO(V0)
	ZERO(V1)
	MOVWU top+16(FP), R3
	VDUP R3, V2.S4
	MOVWU scale+20(FP), R3
	VDUP R3, V3.S4
	MOVD $expConstants<>(SB), R2
	BROADCAST(V4)  // least
	BROADCAST(V5)  // 1/ln 2
	BROADCAST(V6)  // roundMagic
	BROADCAST(V7)  // ln2High
	BROADCAST(V8)  // ln2Low
	BROADCAST(V9)  // 1/720
	BROADCAST(V10) // 1/120
	BROADCAST(V11) // 1/24
	BROADCAST(V12) // 1/6
	BROADCAST(V13) // 1/2
	BROADCAST(V14) // 1

loop:
	VLD1 (R0), [V16.S4, V17.S4]
	FSUB(2, 16, 16)
	FSUB(2, 17, 17)
	FMUL(3, 16, 16)
	FMUL(3, 17, 17)
	FCMGE(4, 16, 26) // x ≥ least
	FCMGE(4, 17, 27)
	FMAX(4, 16, 16)
	FMAX(4, 17, 17)
	FMUL(5, 16, 20)
	FMUL(5, 17, 21)
	FADD(6, 20, 20)  // the integer next to x/ln 2, shifted
	FADD(6, 21, 21)
	FSUB(6, 20, 22)
	FSUB(6, 21, 23)
	VSHL $23, V20.S4, V20.S4
	VSHL $23, V21.S4, V21.S4
	VADD V14.S4, V20.S4, V20.S4 // its power of two
	VADD V14.S4, V21.S4, V21.S4
	VAND V26.B16, V20.B16, V20.B16
	VAND V27.B16, V21.B16, V21.B16
	FMUL(7, 22, 24)
	FMUL(7, 23, 25)
	FSUB(24, 16, 16)
	FSUB(25, 17, 17)
	FMUL(8, 22, 24)
	FMUL(8, 23, 25)
	FSUB(24, 16, 16) // r
	FSUB(25, 17, 17)
	VORR V9.B16, V9.B16, V18.B16
	VORR V9.B16, V9.B16, V19.B16
	STEP(10)
	STEP(11)
	STEP(12)
	STEP(13)
	STEP(14)
	STEP(14)
	FMUL(20, 18, 18)
	FMUL(21, 19, 19)
	VST1.P [V18.S4, V19.S4], 32(R0)
	FADD(18, 0, 0)
	FADD(19, 1, 1)
	SUBS $8, R1
	BNE  loop

	FADDP(0, 0, 0)
	FADDP(0, 0, 0)
	FADDP(1, 1, 1)
	FADDP(1, 1, 1)
	FADD(1, 0, 0)
	FMOVS F0, ret+24(FP)
	RET

// func largest32(w *float32, n int) float32
TEXT ·largest32(SB), NOSPLIT, $0-20
	MOVD w+0(FP), R0
	MOVD n+8(FP), R1
	VLD1 (R0), [V0.S4, V1.S4]

loop:
	VLD1.P 32(R0), [V2.S4, V3.S4]
	FMAX(2, 0, 0)
	FMAX(3, 1, 1)
	SUBS $8, R1
	BNE  loop

	FMAX(1, 0, 0)
	VEXT $8, V0.B16, V0.B16, V1.B16
	FMAX(1, 0, 0)
	VEXT $4, V0.B16, V0.B16, V1.B16
	FMAX(1, 0, 0)
	FMOVS F0, ret+16(FP)
	RET

// func countBytes(scores *uint8, n int, least uint8) int
//
// A lane that passes subtracts −1 from its counter in V0 or V1.
TEXT ·countBytes(SB), NOSPLIT, $0-32
	MOVD scores+0(FP), R0
	MOVD n+8(FP), R1
	MOVBU least+16(FP), R2
	VDUP R2, V2.B16
	ZERO(V0)
	ZERO(V1)

loop:
	VLD1.P 32(R0), [V3.B16, V4.B16]
	VUMAX V2.B16, V3.B16, V5.B16
	VUMAX V2.B16, V4.B16, V6.B16
	VCMEQ V5.B16, V3.B16, V3.B16
	VCMEQ V6.B16, V4.B16, V4.B16
	VSUB V3.B16, V0.B16, V0.B16
	VSUB V4.B16, V1.B16, V1.B16
	SUBS $32, R1
	BNE  loop

	VUADDLV V0.B16, V0
	VUADDLV V1.B16, V1
	VMOV V0.H[0], R3
	VMOV V1.H[0], R4
	ADD  R3, R4, R4
	MOVD R4, ret+24(FP)
	RET

// BITS keeps the bit of each byte that passes.
#define BITS(v, t) \
	VUMAX V2.B16, v.B16, t.B16; \
	VCMEQ t.B16, v.B16, v.B16;  \
	VAND V3.B16, v.B16, v.B16

// func markBytes(words *uint64, scores *uint8, n int, least uint8)
TEXT ·markBytes(SB), NOSPLIT, $0-25
	MOVD words+0(FP), R0
	MOVD scores+8(FP), R1
	MOVD n+16(FP), R2
	MOVBU least+24(FP), R3
	VDUP R3, V2.B16
	MOVD $bitOf<>(SB), R4
	VLD1 (R4), [V3.B16]

loop:
	VLD1.P 64(R1), [V4.B16, V5.B16, V6.B16, V7.B16]
	BITS(V4, V16)
	BITS(V5, V17)
	BITS(V6, V18)
	BITS(V7, V19)
	VADDP V5.B16, V4.B16, V4.B16
	VADDP V7.B16, V6.B16, V6.B16
	VADDP V6.B16, V4.B16, V4.B16
	VADDP V4.B16, V4.B16, V4.B16
	VMOV V4.D[0], R5
	MOVD.P R5, 8(R0)
	SUBS $1, R2
	BNE  loop
	RET
