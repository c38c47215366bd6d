// Probabilities and their gradients on the host, recomputed for one strip of query rows and one
// tile of keys: what the backward and the gradient of the bias have in common.
#pragma once

#include "hk/hk.h"
#include "hk/kernels/attention/arrays.h"
#include "hk/kernels/attention/gradients.h"
#include "hk/kernels/attention/host_dropout.h"
#include "hk/kernels/attention/host_scores.h"
#include "hk/kernels/attention/visibility.h"

namespace hk {
inline namespace HK_ARCH_NAMESPACE {
namespace attention {

// What the extras of a strip and a tile need beside their scores; untouched without extras.
template <int R, int C>
struct extra_tiles {
  query_terms<R> queries;
  rt<float, R, C> scratch;
  rt<float, R, C> derivative;  // of the soft cap
  rt<float, R, C> kept;        // by dropout
};

// dP = kept ? dP / (1 - rate) : 0
template <int R, int C>
HK_NOINLINE void drop_gradients(rt<float, R, C>& dp, rt<float, R, C>& kept, const kv_head& h,
                                coord at) {
  kept.resize_rows(dp.rows());
  draw_kept(kept, h, at);
  const float factor = dropout_scale(h.problem);
  map(dp, [=](auto x, auto keep) HK_LAMBDA_INLINE { return drop(x * factor, keep); }, dp, kept);
}

// From s = Q K^T and dp = dO V^T to p = P and ds = the gradient of the logits; p may be s, and ds
// may be dp. `at` is the row of the key head's query rows, and the key.
template <register_tile P, int R, int C>
HK_INLINE void recompute(P& p, P& ds, rt<float, R, C>& s, rt<float, R, C>& dp,
                         const row_terms<R>& terms, extra_tiles<R, C>& extra,
                         const key_terms<C>& keys, const kv_head& h, coord at) {
  const attention_problem& problem = h.problem;
  if (has_extras(problem))
    apply_extras(s, {h, extra.queries, keys, at, extra.scratch, &extra.derivative});
  const span queries = h.queries_of_rows({at.row, at.row + s.rows()});
  if (!h.visibility.all(queries, {at.col, at.col + C}))
    mask_invisible(s, h.visibility, at.row, h.group, at.col);
  if (problem.dropout_rate > 0) drop_gradients(dp, extra.kept, h, at);
  p.resize_rows(s.rows());
  ds.resize_rows(s.rows());
  probability_gradients(p, ds, s, dp, terms, exponent_factor(h));
}

// From P to the P that the values were summed with, less the factor 1 / (1 - rate), and from the
// gradient of the logits to that of the scores.
template <register_tile P, int R, int C>
HK_INLINE void to_products(P& p, P& ds, const extra_tiles<R, C>& extra,
                           const attention_problem& problem) {
  if (problem.dropout_rate > 0) map(p, drop, p, extra.kept);
  if (problem.soft_cap != 0) map(ds, fn::mul, ds, extra.derivative);
}

// Takes row r out of a strip that no key is seen from: it has no part in any sum, whatever its
// query and its cotangent are. Their products with probabilities of zero would not be zero if they
// are infinite or no numbers.
template <class... Tiles>
HK_NOINLINE void forget_row(int r, Tiles&... tiles) {
  const auto forget = [r](auto& tile) {
    for (int c = 0; c < tile.cols(); ++c) tile.at(r, c) = {};
  };
  (forget(tiles), ...);
}

}  // namespace attention
}  // namespace HK_ARCH_NAMESPACE
}  // namespace hk
