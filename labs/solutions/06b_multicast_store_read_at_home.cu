// SPDX-License-Identifier: MIT-0
    // >>> your part: store to all replicas
    lab::store_all(mc + i, value);
    // <<<
    // >>> your part: where the GPU reads; lab::map_for maps
    home[gpu] = lab::map_for(gpu, memory[gpu], team.size);
    // <<<
    // >>> your part: tear down what is of this GPU; lab::unmap unmaps
    CHECK(cuMulticastUnbind(object, gpu, 0, team.size));
    lab::unmap(mc[gpu], team.size);
    lab::unmap(home[gpu], team.size);
    CHECK(cuMemRelease(memory[gpu]));
    // <<<
