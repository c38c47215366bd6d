// What the handlers call of XLA: its table of functions, as far as they use it, with errors that
// can be read and a thread pool whose behaviour varies from call to call.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "xla/ffi/api/c_api.h"

// XLA leaves both to the runtime.
struct XLA_FFI_Error {
  XLA_FFI_Error_Code code;
  std::string message;
};

namespace fuzz {

struct task {
  XLA_FFI_Task* run;
  void* data;
};

// Two threads that take tasks as they come, be it long after the call that gave them.
class workers {
 public:
  workers() {
    for (int i = 0; i < 2; ++i) threads_.emplace_back([this] { work(); });
  }
  ~workers() {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
  }

  void add(task t) {
    {
      const std::lock_guard lock(mutex_);
      tasks_.push_back(t);
    }
    changed_.notify_one();
  }

 private:
  void work() {
    for (std::unique_lock lock(mutex_);;) {
      changed_.wait(lock, [this] { return stopping_ || !tasks_.empty(); });
      if (tasks_.empty()) return;
      const task t = tasks_.front();
      tasks_.pop_front();
      lock.unlock();
      t.run(t.data);
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<task> tasks_;
  bool stopping_ = false;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

enum class scheduling { on_workers, at_once, fails };

// What a call sees of the thread pool, or of a GPU.
struct context {
  int64_t threads;
  scheduling mode;
  workers* pool;
  void* stream = nullptr;
  int32_t device = 0;
};

inline context& of(XLA_FFI_ExecutionContext* ctx) { return *reinterpret_cast<context*>(ctx); }

inline XLA_FFI_Error* create_error(XLA_FFI_Error_Create_Args* args) {
  return new XLA_FFI_Error{args->errc, args->message};
}

inline void get_message(XLA_FFI_Error_GetMessage_Args* args) {
  args->message = args->error->message.c_str();
}

inline void destroy_error(XLA_FFI_Error_Destroy_Args* args) { delete args->error; }

inline XLA_FFI_Error* schedule(XLA_FFI_ThreadPool_Schedule_Args* args) {
  context& now = of(args->ctx);
  switch (now.mode) {
    case scheduling::on_workers:
      now.pool->add({args->task, args->data});
      return nullptr;
    case scheduling::at_once:
      args->task(args->data);
      return nullptr;
    default:
      return new XLA_FFI_Error{XLA_FFI_Error_Code_UNAVAILABLE, "no thread pool"};
  }
}

inline XLA_FFI_Error* count_threads(XLA_FFI_ThreadPool_NumThreads_Args* args) {
  *args->num_threads = of(args->ctx).threads;
  return nullptr;
}

inline XLA_FFI_Error* get_stream(XLA_FFI_Stream_Get_Args* args) {
  args->stream = of(args->ctx).stream;
  return nullptr;
}

inline XLA_FFI_Error* get_device(XLA_FFI_DeviceOrdinal_Get_Args* args) {
  args->device_ordinal = of(args->ctx).device;
  return nullptr;
}

// A handler that called anything else, such as for scratch, would call null.
inline XLA_FFI_Api make_api() {
  XLA_FFI_Api api{};
  api.struct_size = XLA_FFI_Api_STRUCT_SIZE;
  api.api_version = {XLA_FFI_Api_Version_STRUCT_SIZE, nullptr, XLA_FFI_API_MAJOR,
                     XLA_FFI_API_MINOR};
  api.XLA_FFI_Error_Create = create_error;
  api.XLA_FFI_Error_GetMessage = get_message;
  api.XLA_FFI_Error_Destroy = destroy_error;
  api.XLA_FFI_ThreadPool_Schedule = schedule;
  api.XLA_FFI_ThreadPool_NumThreads = count_threads;
  api.XLA_FFI_Stream_Get = get_stream;
  api.XLA_FFI_DeviceOrdinal_Get = get_device;
  return api;
}

}  // namespace fuzz
