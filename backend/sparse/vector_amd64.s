#include "textflag.h"

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
DATA expConstants<>+44(SB)/4, $0x3f800000
GLOBL expConstants<>(SB), RODATA, $48

// ROW computes the address of the row with the index at offset off of R9.
#define ROW(off, reg) \
	MOVLQSX off(R9), reg; \
	IMULQ   DX, reg;      \
	ADDQ    R8, reg

// AHEAD is the number of rows between the row that is computed and the row that is fetched into the
// cache. The processor does not guess the next row of a selection.
#define AHEAD 16

// FETCH fetches the row with the index at offset off of R9: CX bytes.
#define FETCH(off, loop) \
	MOVLQSX off(R9), R14; \
	IMULQ   DX, R14;      \
	ADDQ    R8, R14;      \
	XORQ    BX, BX;       \
loop:                     \
	PREFETCHT0 (R14)(BX*1); \
	ADDQ    $64, BX;      \
	CMPQ    BX, CX;       \
	JLT     loop

// REDUCE adds up the eight lanes of Y0, Y1, Y2 and Y3 and stores the four sums.
#define REDUCE \
	VHADDPS Y1, Y0, Y0;          \
	VHADDPS Y3, Y2, Y2;          \
	VHADDPS Y2, Y0, Y0;          \
	VEXTRACTF128 $1, Y0, X1;     \
	VADDPS X1, X0, X0;           \
	VMOVUPS X0, (DI)

// CLEAR sets the eight accumulators to zero.
#define CLEAR \
	VXORPS Y0, Y0, Y0; \
	VXORPS Y1, Y1, Y1; \
	VXORPS Y2, Y2, Y2; \
	VXORPS Y3, Y3, Y3; \
	VXORPS Y4, Y4, Y4; \
	VXORPS Y5, Y5, Y5; \
	VXORPS Y6, Y6, Y6; \
	VXORPS Y7, Y7, Y7

// func dotRows32(dst, q, keys *float32, stride, dim int, indices *int32, n int)
TEXT ·dotRows32(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ q+8(FP), SI
	MOVQ keys+16(FP), R8
	MOVQ stride+24(FP), DX
	MOVQ dim+32(FP), CX
	MOVQ indices+40(FP), R9
	MOVQ n+48(FP), R10
	SHLQ $2, DX
	SHLQ $2, CX

group:
	CMPQ R10, $(AHEAD+4)
	JLT  fetched
	FETCH(4*AHEAD, fetch0)
	FETCH(4*AHEAD+4, fetch1)
	FETCH(4*AHEAD+8, fetch2)
	FETCH(4*AHEAD+12, fetch3)

fetched:
	ROW(0, R11)
	ROW(4, R12)
	ROW(8, R13)
	ROW(12, AX)
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	XORQ BX, BX

chunk:
	VMOVUPS (SI)(BX*1), Y4
	VMULPS (R11)(BX*1), Y4, Y5
	VMULPS (R12)(BX*1), Y4, Y6
	VMULPS (R13)(BX*1), Y4, Y7
	VMULPS (AX)(BX*1), Y4, Y8
	VADDPS Y5, Y0, Y0
	VADDPS Y6, Y1, Y1
	VADDPS Y7, Y2, Y2
	VADDPS Y8, Y3, Y3
	ADDQ $32, BX
	CMPQ BX, CX
	JLT  chunk

	REDUCE
	ADDQ $16, DI
	ADDQ $16, R9
	SUBQ $4, R10
	JNZ  group
	VZEROUPPER
	RET

// func dotRows16(dst, q *float32, keys *uint16, stride, dim int, indices *int32, n int)
TEXT ·dotRows16(SB), NOSPLIT, $0-56
	MOVQ dst+0(FP), DI
	MOVQ q+8(FP), SI
	MOVQ keys+16(FP), R8
	MOVQ stride+24(FP), DX
	MOVQ dim+32(FP), CX
	MOVQ indices+40(FP), R9
	MOVQ n+48(FP), R10
	SHLQ $1, DX
	SHLQ $1, CX

group:
	CMPQ R10, $(AHEAD+4)
	JLT  fetched
	FETCH(4*AHEAD, fetch0)
	FETCH(4*AHEAD+4, fetch1)
	FETCH(4*AHEAD+8, fetch2)
	FETCH(4*AHEAD+12, fetch3)

fetched:
	ROW(0, R11)
	ROW(4, R12)
	ROW(8, R13)
	ROW(12, AX)
	VXORPS Y0, Y0, Y0
	VXORPS Y1, Y1, Y1
	VXORPS Y2, Y2, Y2
	VXORPS Y3, Y3, Y3
	XORQ BX, BX

chunk:
	VMOVUPS (SI)(BX*2), Y4
	VCVTPH2PS (R11)(BX*1), Y5
	VCVTPH2PS (R12)(BX*1), Y6
	VCVTPH2PS (R13)(BX*1), Y7
	VCVTPH2PS (AX)(BX*1), Y8
	VMULPS Y5, Y4, Y5
	VMULPS Y6, Y4, Y6
	VMULPS Y7, Y4, Y7
	VMULPS Y8, Y4, Y8
	VADDPS Y5, Y0, Y0
	VADDPS Y6, Y1, Y1
	VADDPS Y7, Y2, Y2
	VADDPS Y8, Y3, Y3
	ADDQ $16, BX
	CMPQ BX, CX
	JLT  chunk

	REDUCE
	ADDQ $16, DI
	ADDQ $16, R9
	SUBQ $4, R10
	JNZ  group
	VZEROUPPER
	RET

// FETCHNEXT computes the address of the value that is fetched next, with index number BX+AHEAD. It
// jumps to done if there is none.
#define FETCHNEXT(done) \
	CMPQ    BX, R12;               \
	JGE     done;                  \
	MOVLQSX 4*AHEAD(R9)(BX*4), R13; \
	IMULQ   DX, R13;               \
	ADDQ    R8, R13

// NEXT computes the address of the value with index number BX, and loads its weight.
#define NEXT \
	MOVLQSX (R9)(BX*4), R11; \
	IMULQ   DX, R11;         \
	ADDQ    R8, R11;         \
	VBROADCASTSS (SI)(BX*4), Y8

// ADD32 adds eight weighted float32 elements at offset off to an accumulator.
#define ADD32(off, acc, t) \
	VMULPS off(R11), Y8, t; \
	VADDPS t, acc, acc

// ADD16 adds eight weighted float16 elements at offset off to an accumulator.
#define ADD16(off, acc, t) \
	VCVTPH2PS off(R11), t; \
	VMULPS t, Y8, t;       \
	VADDPS t, acc, acc

// func addRows32(out, weights, values *float32, stride, dim int, indices *int32, n int)
TEXT ·addRows32(SB), NOSPLIT, $0-56
	MOVQ out+0(FP), DI
	MOVQ weights+8(FP), SI
	MOVQ values+16(FP), R8
	MOVQ stride+24(FP), DX
	MOVQ dim+32(FP), CX
	MOVQ indices+40(FP), R9
	MOVQ n+48(FP), R10
	LEAQ -AHEAD(R10), R12
	SHLQ $2, DX

columns64:
	CMPQ CX, $64
	JLT  columns32
	CLEAR
	XORQ BX, BX

row64:
	FETCHNEXT(fetched64)
	PREFETCHT0 0(R13)
	PREFETCHT0 64(R13)
	PREFETCHT0 128(R13)
	PREFETCHT0 192(R13)

fetched64:
	NEXT
	ADD32(0, Y0, Y9)
	ADD32(32, Y1, Y10)
	ADD32(64, Y2, Y11)
	ADD32(96, Y3, Y12)
	ADD32(128, Y4, Y13)
	ADD32(160, Y5, Y14)
	ADD32(192, Y6, Y9)
	ADD32(224, Y7, Y10)
	INCQ BX
	CMPQ BX, R10
	JLT  row64
	VMOVUPS Y0, 0(DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, 128(DI)
	VMOVUPS Y5, 160(DI)
	VMOVUPS Y6, 192(DI)
	VMOVUPS Y7, 224(DI)
	ADDQ $256, DI
	ADDQ $256, R8
	SUBQ $64, CX
	JMP  columns64

columns32:
	CMPQ CX, $32
	JLT  columns8
	CLEAR
	XORQ BX, BX

row32:
	FETCHNEXT(fetched32)
	PREFETCHT0 0(R13)
	PREFETCHT0 64(R13)

fetched32:
	NEXT
	ADD32(0, Y0, Y9)
	ADD32(32, Y1, Y10)
	ADD32(64, Y2, Y11)
	ADD32(96, Y3, Y12)
	INCQ BX
	CMPQ BX, R10
	JLT  row32
	VMOVUPS Y0, 0(DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ $128, DI
	ADDQ $128, R8
	SUBQ $32, CX

columns8:
	TESTQ CX, CX
	JZ   done
	VXORPS Y0, Y0, Y0
	XORQ BX, BX

row8:
	NEXT
	ADD32(0, Y0, Y9)
	INCQ BX
	CMPQ BX, R10
	JLT  row8
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	ADDQ $32, R8
	SUBQ $8, CX
	JMP  columns8

done:
	VZEROUPPER
	RET

// func addRows16(out, weights *float32, values *uint16, stride, dim int, indices *int32, n int)
TEXT ·addRows16(SB), NOSPLIT, $0-56
	MOVQ out+0(FP), DI
	MOVQ weights+8(FP), SI
	MOVQ values+16(FP), R8
	MOVQ stride+24(FP), DX
	MOVQ dim+32(FP), CX
	MOVQ indices+40(FP), R9
	MOVQ n+48(FP), R10
	LEAQ -AHEAD(R10), R12
	SHLQ $1, DX

columns64:
	CMPQ CX, $64
	JLT  columns32
	CLEAR
	XORQ BX, BX

row64:
	FETCHNEXT(fetched64)
	PREFETCHT0 0(R13)
	PREFETCHT0 64(R13)

fetched64:
	NEXT
	ADD16(0, Y0, Y9)
	ADD16(16, Y1, Y10)
	ADD16(32, Y2, Y11)
	ADD16(48, Y3, Y12)
	ADD16(64, Y4, Y13)
	ADD16(80, Y5, Y14)
	ADD16(96, Y6, Y9)
	ADD16(112, Y7, Y10)
	INCQ BX
	CMPQ BX, R10
	JLT  row64
	VMOVUPS Y0, 0(DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	VMOVUPS Y4, 128(DI)
	VMOVUPS Y5, 160(DI)
	VMOVUPS Y6, 192(DI)
	VMOVUPS Y7, 224(DI)
	ADDQ $256, DI
	ADDQ $128, R8
	SUBQ $64, CX
	JMP  columns64

columns32:
	CMPQ CX, $32
	JLT  columns8
	CLEAR
	XORQ BX, BX

row32:
	FETCHNEXT(fetched32)
	PREFETCHT0 0(R13)

fetched32:
	NEXT
	ADD16(0, Y0, Y9)
	ADD16(16, Y1, Y10)
	ADD16(32, Y2, Y11)
	ADD16(48, Y3, Y12)
	INCQ BX
	CMPQ BX, R10
	JLT  row32
	VMOVUPS Y0, 0(DI)
	VMOVUPS Y1, 32(DI)
	VMOVUPS Y2, 64(DI)
	VMOVUPS Y3, 96(DI)
	ADDQ $128, DI
	ADDQ $64, R8
	SUBQ $32, CX

columns8:
	TESTQ CX, CX
	JZ   done
	VXORPS Y0, Y0, Y0
	XORQ BX, BX

row8:
	NEXT
	ADD16(0, Y0, Y9)
	INCQ BX
	CMPQ BX, R10
	JLT  row8
	VMOVUPS Y0, (DI)
	ADDQ $32, DI
	ADDQ $16, R8
	SUBQ $8, CX
	JMP  columns8

done:
	VZEROUPPER
	RET

// func exponentials32(w *float32, n int, top, scale float32) float32
//
// Y0 holds the partial sums, and Y1 to Y12 hold constants.
TEXT ·exponentials32(SB), NOSPLIT, $0-28
	MOVQ w+0(FP), DI
	MOVQ n+8(FP), CX
	VXORPS Y0, Y0, Y0
	VBROADCASTSS top+16(FP), Y1
	VBROADCASTSS scale+20(FP), Y2
	VBROADCASTSS expConstants<>+0(SB), Y3
	VBROADCASTSS expConstants<>+4(SB), Y4
	VBROADCASTSS expConstants<>+8(SB), Y5
	VBROADCASTSS expConstants<>+12(SB), Y6
	VBROADCASTSS expConstants<>+16(SB), Y7
	VBROADCASTSS expConstants<>+24(SB), Y8
	VBROADCASTSS expConstants<>+28(SB), Y9
	VBROADCASTSS expConstants<>+32(SB), Y10
	VBROADCASTSS expConstants<>+36(SB), Y11
	VBROADCASTSS expConstants<>+40(SB), Y12

loop:
	VMOVUPS (DI), Y13
	VSUBPS Y1, Y13, Y13
	VMULPS Y2, Y13, Y13
	VMAXPS Y3, Y13, Y14
	VCMPPS $0x1d, Y3, Y13, Y3     // x ≥ least
	VMOVAPS Y14, Y13
	VMULPS Y4, Y13, Y14
	VADDPS Y5, Y14, Y14           // the integer next to x/ln 2, shifted
	VSUBPS Y5, Y14, Y15
	VPSLLD $23, Y14, Y14
	VPADDD Y12, Y14, Y14          // its power of two
	VANDPS Y3, Y14, Y14
	VMULPS Y6, Y15, Y3
	VSUBPS Y3, Y13, Y13
	VMULPS Y7, Y15, Y3
	VSUBPS Y3, Y13, Y13           // r
	VBROADCASTSS expConstants<>+20(SB), Y15
	VMULPS Y13, Y15, Y15
	VADDPS Y8, Y15, Y15
	VMULPS Y13, Y15, Y15
	VADDPS Y9, Y15, Y15
	VMULPS Y13, Y15, Y15
	VADDPS Y10, Y15, Y15
	VMULPS Y13, Y15, Y15
	VADDPS Y11, Y15, Y15
	VMULPS Y13, Y15, Y15
	VADDPS Y12, Y15, Y15
	VMULPS Y13, Y15, Y15
	VADDPS Y12, Y15, Y15
	VMULPS Y14, Y15, Y15
	VBROADCASTSS expConstants<>+0(SB), Y3
	VMOVUPS Y15, (DI)
	VADDPS Y15, Y0, Y0
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop

	VHADDPS Y0, Y0, Y0
	VHADDPS Y0, Y0, Y0
	VEXTRACTF128 $1, Y0, X1
	VADDPS X1, X0, X0
	VMOVSS X0, ret+24(FP)
	VZEROUPPER
	RET

// func largest32(w *float32, n int) float32
TEXT ·largest32(SB), NOSPLIT, $0-20
	MOVQ w+0(FP), DI
	MOVQ n+8(FP), CX
	VMOVUPS (DI), Y0

loop:
	VMAXPS (DI), Y0, Y0
	ADDQ $32, DI
	SUBQ $8, CX
	JNZ  loop

	VEXTRACTF128 $1, Y0, X1
	VMAXPS X1, X0, X0
	VPERMILPS $0x4e, X0, X1
	VMAXPS X1, X0, X0
	VPERMILPS $0xb1, X0, X1
	VMAXPS X1, X0, X0
	VMOVSS X0, ret+16(FP)
	VZEROUPPER
	RET

// func countBytes(scores *uint8, n int, least uint8) int
//
// A lane that passes subtracts −1 from its counter in Y0.
TEXT ·countBytes(SB), NOSPLIT, $0-32
	MOVQ scores+0(FP), SI
	MOVQ n+8(FP), CX
	VPBROADCASTB least+16(FP), Y1
	VPXOR Y0, Y0, Y0
	VPXOR Y3, Y3, Y3

loop:
	VMOVDQU (SI), Y2
	VPMAXUB Y1, Y2, Y4
	VPCMPEQB Y4, Y2, Y2
	VPSUBB Y2, Y0, Y0
	ADDQ $32, SI
	SUBQ $32, CX
	JNZ  loop

	VPSADBW Y3, Y0, Y0
	VEXTRACTI128 $1, Y0, X1
	VPADDQ X1, X0, X0
	VPSRLDQ $8, X0, X1
	VPADDQ X1, X0, X0
	VMOVQ X0, AX
	MOVQ AX, ret+24(FP)
	VZEROUPPER
	RET

// func markBytes(words *uint64, scores *uint8, n int, least uint8)
TEXT ·markBytes(SB), NOSPLIT, $0-25
	MOVQ words+0(FP), DI
	MOVQ scores+8(FP), SI
	MOVQ n+16(FP), CX
	VPBROADCASTB least+24(FP), Y1

loop:
	VMOVDQU (SI), Y2
	VMOVDQU 32(SI), Y3
	VPMAXUB Y1, Y2, Y4
	VPMAXUB Y1, Y3, Y5
	VPCMPEQB Y4, Y2, Y2
	VPCMPEQB Y5, Y3, Y3
	VPMOVMSKB Y2, AX
	VPMOVMSKB Y3, BX
	MOVL AX, (DI)
	MOVL BX, 4(DI)
	ADDQ $64, SI
	ADDQ $8, DI
	DECQ CX
	JNZ  loop
	VZEROUPPER
	RET
