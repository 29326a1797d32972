/* kernels_fetch.h: weights on their way from memory while a tile computes.
 *
 * A single panel is one stream, which the hardware fetches too late when it comes from memory:
 * 4 rows read 16 GB/s without, 21 GB/s with it on the machine of the first measurements. Several
 * panels at once lose by it, unless so many rows share them that computing takes as long as
 * reading; then a tile fetches what the next one reads. The lines are asked for in the first-level
 * cache, though what comes next does not fit it beside what is read now: they leave it for the
 * second. Asked for there at once, they take 2 to 8 % longer on a Zen 5, as long on a Zen 4.
 */
enum { AHEAD_BYTES = 2048, LINE_BYTES = 64 };

typedef struct {
  const char *from, *end;
  size_t step; /* bytes */
} fetches;

/* fetches_of is the share of one of several passes, of so many steps, over a tile's weights. */
LANE fetches fetches_of(const emu_ahead *ahead, size_t pass, size_t passes, size_t steps,
                        const void *panel, size_t panel_step) {
  if (ahead->bytes == 0 || steps == 0) {
    return (fetches){(const char *)panel + AHEAD_BYTES, NULL, panel_step};
  }
  size_t share = ahead->bytes / passes;
  return (fetches){ahead->from + pass * share, ahead->end, (share + steps - 1) / steps};
}

/* On a Zen 4 a fetch of a line whose page is not in the translation buffers is dropped. A load is
 * not: every now and then one reaches a page further. Without it 8 rows of f16 take 10 to 50 %
 * longer there, and still 3 to 6 % on a Zen 5, whose fetches are not dropped. One in each page is
 * too few. */
LANE void fetch(const fetches *f, size_t s) {
  enum { LEAD_BYTES = 4096, LEAD_STEPS = 16 };
  const char *line = f->from + s * f->step, *lead = line + LEAD_BYTES;
  __builtin_prefetch(line, 0, 3);
  if (f->step > LINE_BYTES) {
    __builtin_prefetch(line + LINE_BYTES, 0, 3);
  }
  if (f->step > 2 * LINE_BYTES) {
    __builtin_prefetch(line + 2 * LINE_BYTES, 0, 3);
  }
  if (s % LEAD_STEPS == 0 && lead < f->end) {
    (void)*(const volatile char *)lead;
  }
}
