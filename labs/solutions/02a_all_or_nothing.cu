// SPDX-License-Identifier: MIT-0
  // >>> your part: undo what was done before the error
  if (wanted <= buffer.size) return CUDA_SUCCESS;  // cuMemSetAccess refuses 0 bytes
  size_t mapped = buffer.size;
  CUresult result = CUDA_SUCCESS;
  while (result == CUDA_SUCCESS && mapped < wanted) {
    CUmemGenericAllocationHandle memory;
    result = cuMemCreate(&memory, chunk, &buffer.properties, 0);
    if (result != CUDA_SUCCESS) break;
    result = cuMemMap(buffer.address + mapped, chunk, 0, memory, 0);
    if (result == CUDA_SUCCESS) mapped += chunk;
    cuMemRelease(memory);  // frees the chunk if cuMemMap has failed
  }
  if (result == CUDA_SUCCESS) {
    result = cuMemSetAccess(buffer.address + buffer.size, wanted - buffer.size, &buffer.access, 1);
  }
  if (result == CUDA_SUCCESS) {
    buffer.size = wanted;
  } else if (mapped > buffer.size) {
    cuMemUnmap(buffer.address + buffer.size, mapped - buffer.size);  // the new chunks, and frees them
  }
  return result;
  // <<<
