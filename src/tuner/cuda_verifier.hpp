// The oracle's values in device memory, and results compared with them there: a search compares
// hundreds of candidates, and their results are too large to fetch. The values come from the
// operator's device oracle, or, if it has none, from the reference on the host.
// Flow: tune > measure > [verify].  Read next: device/tuner_compare.cuh, tuner/verify.cpp.
#pragma once

#include "tuner/cuda_memory.hpp"
#include "tuner/verifier.hpp"

namespace dlblas {

/// Fills in values and magnitudes of listed rows, in device memory.
class OracleSource {
 public:
  virtual ~OracleSource() = default;
  virtual void compute(const Args& args, const std::vector<std::int64_t>& rows,
                       const std::int64_t* device_rows, const OracleOut* out) = 0;
};

class CudaVerifier final : public Verifier {
 public:
  /// `args` has the inputs and the results' shapes; `context` lends the host's threads.
  CudaVerifier(const Operator& op, const Problem& problem, const Args& args,
               std::vector<std::int64_t> rows, const Context& context, std::int64_t (*clock)(),
               CudaMemory& memory);
  ~CudaVerifier() override;
  Verdict compare(const Args& after) override;
  Verdict compare_whole(const Args& before, const Args& after) override;
  std::vector<std::int64_t> disputed(const Args& one, const Args& other) override;
  std::vector<std::int64_t> defined(const Args& before, int j,
                                    const std::vector<std::int64_t>& elements) override;
  double row_ms() const override { return row_ms_; }
  bool fits(const Args& args) const override;

 private:
  class Block;
  const Operator& op_;
  const Problem problem_;
  CudaMemory& memory_;
  std::unique_ptr<OracleSource> source_;
  std::unique_ptr<Block> chosen_;  // the rows that every candidate is compared with
  std::unique_ptr<CudaArray<double>> largest_[kMaxJudged];  // of each column of theirs, if needed
  double row_ms_ = 0;
};

/// The operator's device oracle, checked against its reference at the first use for these dtypes,
/// or the reference on the host. Throws Error(kInternal) when the two disagree.
std::unique_ptr<OracleSource> make_oracle_source(const Operator& op, const Problem& problem,
                                                 const Args& args, const Context& context,
                                                 CudaMemory& memory);

/// As verify, for tensors in device memory; `context` has the stream that wrote them.
Verdict verify_on_device(const Operator& op, const Problem& problem, const Args& before,
                         const Args& after, const std::vector<std::int64_t>& rows,
                         const Context& context);
inline Verdict verify_on_device(const Operator& op, const Problem& problem, const Args& args,
                                const std::vector<std::int64_t>& rows, const Context& context) {
  return verify_on_device(op, problem, args, args, rows, context);
}

}  // namespace dlblas
