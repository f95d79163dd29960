// SPDX-License-Identifier: MIT-0
  // >>> your part: undo what was done before the error
  size_t mapped = buffer.size;
  CUresult result = CUDA_SUCCESS;
  while (result == CUDA_SUCCESS && mapped < wanted) {
    CUmemGenericAllocationHandle handle;
    result = cuMemCreate(&handle, chunk, &buffer.memory, 0);
    if (result != CUDA_SUCCESS) break;
    result = cuMemMap(buffer.base + mapped, chunk, 0, handle, 0);
    if (result == CUDA_SUCCESS) mapped += chunk;
    cuMemRelease(handle);  // frees the chunk if cuMemMap has failed
  }
  if (result == CUDA_SUCCESS) {
    result = cuMemSetAccess(buffer.base + buffer.size, wanted - buffer.size, &buffer.access, 1);
  }
  if (result == CUDA_SUCCESS) {
    buffer.size = wanted;
  } else if (mapped > buffer.size) {
    cuMemUnmap(buffer.base + buffer.size, mapped - buffer.size);  // the new chunks, and frees them
  }
  return result;
  // <<<
