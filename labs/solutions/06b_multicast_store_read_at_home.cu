// SPDX-License-Identifier: MIT-0
    // >>> your part: store to all replicas
    lab::store_all(mc + i, value);
    // <<<
    // >>> your part: where the GPU reads; lab::map_for maps
    own[gpu] = lab::map_for(gpu, memory[gpu], object_properties.size);
    // <<<
    // >>> your part: tear down what is of this GPU; lab::unmap unmaps
    CHECK(cuMulticastUnbind(object, gpu, 0, object_properties.size));
    lab::unmap(mc[gpu], object_properties.size);
    lab::unmap(own[gpu], object_properties.size);
    CHECK(cuMemRelease(memory[gpu]));
    // <<<
