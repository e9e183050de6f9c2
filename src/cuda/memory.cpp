// Device memory, streams, events and graphs; see cuda.hpp.
#include <utility>

#include "core/error.hpp"
#include "cuda/cuda.hpp"
#include "cuda/driver.hpp"

namespace dlblas::cuda {
namespace {

DevicePtr address(const void* p) { return reinterpret_cast<DevicePtr>(p); }
void* pointer(DevicePtr p) { return reinterpret_cast<void*>(p); }

}  // namespace

Buffer::Buffer(std::size_t bytes) : bytes_(bytes) {
  if (bytes == 0) return;
  const Driver& d = require_driver();
  d.context_device(&device_);
  const RelaxedCapture relaxed;
  DevicePtr p = 0;
  if (const Result code = d.memory_alloc(&p, bytes))
    throw Error(ErrorKind::kLaunch,
                text("cuda: memory could not be allocated; expected ", bytes, " bytes, got ",
                     error_text(code)),
                {.op = "cuda", .argument = "memory"});
  data_ = pointer(p);
}

Buffer::~Buffer() {
  if (!data_) return;
  try {
    const CurrentDevice current(device_);
    const RelaxedCapture relaxed;
    driver().memory_free(address(data_));
  } catch (const Error&) {  // a forked child: the memory is the parent's
  }
}

Buffer::Buffer(Buffer&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      device_(other.device_) {}

Buffer& Buffer::operator=(Buffer&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(device_, other.device_);
  return *this;
}

void* allocate(std::size_t bytes, void* stream) {
  DevicePtr p = 0;
  return driver().alloc_async(&p, bytes ? bytes : 1, stream) == 0 ? pointer(p) : nullptr;
}

void release(void* memory, void* stream) {
  if (memory) driver().free_async(address(memory), stream);
}

int pointer_device(const void* memory) {
  int device = -1;
  if (!memory || !unavailable().empty() ||
      driver().pointer_attribute(&device, kPointerDeviceOrdinal, address(memory)) != 0)
    return -1;
  return device;
}

void copy_to_device(void* to, const void* from, std::size_t bytes, void* stream) {
  check(driver().copy_in(address(to), from, bytes, stream), "copying to the device");
  synchronize(stream);
}

void copy_to_host(void* to, const void* from, std::size_t bytes, void* stream) {
  check(driver().copy_out(to, address(from), bytes, stream), "copying to the host");
  synchronize(stream);
}

void copy_on_device(void* to, const void* from, std::size_t bytes, void* stream) {
  check(driver().copy_within(address(to), address(from), bytes, stream), "copying on the device");
}

void fill_bytes(void* to, int value, std::size_t bytes, void* stream) {
  check(driver().fill(address(to), static_cast<unsigned char>(value), bytes, stream),
        "filling memory");
}

void fill_words(void* to, std::uint32_t value, std::size_t words, void* stream) {
  check(driver().fill_words(address(to), value, words, stream), "filling memory");
}

void synchronize(void* stream) { check(driver().stream_wait(stream), "waiting for a stream"); }

std::size_t free_memory() {
  std::size_t free = 0, total = 0;
  check(driver().memory_info(&free, &total), "asking for free memory");
  return free;
}

Stream::Stream() {
  check(require_driver().stream_create(&stream_, kStreamNonBlocking), "making a stream");
}
Stream::~Stream() { driver().stream_destroy(stream_); }

Timer::Timer() {
  for (void*& event : events_)
    check(require_driver().event_create(&event, kEventDefault), "making an event");
}
Timer::~Timer() {
  for (void* event : events_)
    if (event) driver().event_destroy(event);
}
void Timer::begin(void* stream) {
  check(driver().event_record(events_[0], stream), "recording an event");
}
void Timer::end(void* stream) {
  check(driver().event_record(events_[1], stream), "recording an event");
}
double Timer::milliseconds() {
  float ms = 0;
  check(driver().event_wait(events_[1]), "waiting for an event");
  check(driver().event_elapsed(&ms, events_[0], events_[1]), "reading a time");
  return ms;
}

Graph::Graph(void* stream, int (*record)(void*), void* self) {
  const Driver& d = require_driver();
  check(d.capture_begin(stream, kCaptureThreadLocal), "beginning a capture");
  int code = 0;
  try {
    code = record(self);
  } catch (...) {
    d.capture_end(stream, &graph_);
    if (graph_) d.graph_destroy(graph_);
    throw;
  }
  const Result ended = d.capture_end(stream, &graph_);
  if (code == 0) code = ended;
  if (code == 0) code = d.graph_instantiate(&executable_, graph_, 0);
  if (code == 0) return;
  if (graph_) d.graph_destroy(graph_);
  check(code, "capturing into a graph");
}
Graph::~Graph() {
  if (executable_) driver().graph_exec_destroy(executable_);
  if (graph_) driver().graph_destroy(graph_);
}
Graph::Graph(Graph&& other) noexcept
    : graph_(std::exchange(other.graph_, nullptr)),
      executable_(std::exchange(other.executable_, nullptr)) {}

void Graph::replay(void* stream) const {
  check(driver().graph_launch(executable_, stream), "replaying a graph");
}

}  // namespace dlblas::cuda
