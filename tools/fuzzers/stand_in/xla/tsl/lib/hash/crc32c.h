// TensorFlow's CRC-32C, for a fuzzer that is linked without TensorFlow.
//
// Source: RFC 3720, appendix B.4 for the polynomial; the mask is that of TFRecord files.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace tsl::crc32c {

inline std::uint32_t Extend(std::uint32_t crc, const char* bytes, std::size_t size) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) {
        value = (value >> 1) ^ ((value & 1) != 0 ? 0x82F63B78U : 0U);
      }
      made[i] = value;
    }
    return made;
  }();
  crc = ~crc;
  for (std::size_t i = 0; i < size; ++i) {
    crc = table[(crc ^ static_cast<unsigned char>(bytes[i])) & 0xFF] ^ (crc >> 8);
  }
  return ~crc;
}

inline constexpr std::uint32_t kMaskDelta = 0xA282EAD8U;

inline std::uint32_t Mask(std::uint32_t crc) {
  return ((crc >> 15) | (crc << 17)) + kMaskDelta;
}
inline std::uint32_t Unmask(std::uint32_t masked) {
  const std::uint32_t rotated = masked - kMaskDelta;
  return (rotated >> 17) | (rotated << 15);
}

}  // namespace tsl::crc32c
